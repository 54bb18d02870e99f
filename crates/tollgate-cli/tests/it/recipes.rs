//! The page of recipes: each file is checked, served and asked.

use serde_json::{Value, json};

use crate::Place;
use crate::serving::Serving;

const PAGE: &str = include_str!("../../../../docs/recipes.md");

/// The blocks of this kind, in order.
fn blocks(kind: &str) -> Vec<&'static str> {
    let begins = format!("```{kind}\n");
    PAGE.split(&*begins).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// Writes the lists beside the policies.
fn place() -> Place {
    let place = Place::new();
    for list in blocks("text") {
        let name = list.lines().next().unwrap().trim_start_matches("# ");
        std::fs::write(place.path().join(name), list).unwrap();
    }
    std::fs::write(place.path().join("keys.csv"), blocks("csv")[0]).unwrap();
    place
}

#[test]
fn each_recipe_is_fine_and_does_what_its_title_says() {
    let place = place();
    let recipes = blocks("toml");
    assert_eq!(recipes.len(), 10);
    let ip = |more: Value| {
        let mut fields = json!({ "ip": "203.0.113.7" });
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        fields
    };
    let login = |user: &str| ip(json!({ "method": "POST", "path": "/login", "user": user }));
    let graphql = |cost: u32| {
        let header = cost.to_string();
        ip(json!({
            "method": "POST", "path": "/graphql", "user": "ann",
            "header.x-graphql-complexity": header
        }))
    };
    let tenant = |user: &str| json!({ "field.tenant": "acme", "user": user });
    let order = |user: &str, agent: &str| {
        ip(json!({ "path": "/users/7/orders", "user": user, "header.user-agent": agent }))
    };
    let day = json!({ "api_key": "k-17" });
    // For each recipe: a request, how often it is asked, and how often it is admitted.
    let asked: [&[(Value, usize, usize)]; 10] = [
        // Five by name; then five of another name, as the address has ten and a denial none.
        &[(login("ann"), 8, 5), (login("bob"), 8, 5), (login("eve"), 1, 0)],
        // The gold key, an unknown one, and a second unknown one of the same address.
        &[
            (ip(json!({ "api_key": "abc" })), 100, 100),
            (ip(json!({ "api_key": "made-up" })), 70, 60),
            (ip(json!({ "api_key": "another" })), 1, 0),
        ],
        &[(graphql(200), 6, 5), (graphql(1), 1, 0)],
        &[(tenant("ann"), 61, 60), (tenant("bob"), 61, 60)],
        &[(day.clone(), 1_002, 1_000)],
        &[(ip(json!({})), 60, 60)],
        &[(ip(json!({})), 101, 100)],
        &[(json!({ "ip": "192.0.2.9" }), 201, 200), (ip(json!({})), 101, 100)],
        &[],
        &[
            (ip(json!({ "path": "/healthz" })), 150, 150),
            (json!({ "ip": "198.51.100.9", "path": "/" }), 150, 150),
            (order("ann", "curl/8"), 11, 10),
            (order("ann", "a-bot/1"), 50, 50),
        ],
    ];
    for (number, (recipe, asked)) in recipes.iter().zip(asked).enumerate() {
        let path = place.path().join(format!("{number}.toml"));
        std::fs::write(&path, recipe).unwrap();
        let path = path.to_str().unwrap();
        let (code, out, err) = place.run(&["config", "check", "--deny-warnings", path]);
        assert_eq!(code, 0, "{recipe}\n{out}{err}");
        let serving = Serving::start(&place, &["--config", path]);
        let mut client = serving.client();
        for (fields, times, admitted) in asked {
            let question = json!({ "fields": fields }).to_string();
            let count = (0..*times).filter(|_| {
                let said = client.check(&question).unwrap();
                said["allowed"].as_bool().unwrap_or_else(|| panic!("{said}"))
            });
            // Buckets refill while they are asked.
            let count = count.count();
            let is_near = (*admitted..=*admitted + 2).contains(&count);
            assert!(is_near, "{fields}: {count} of {times}\n{recipe}");
        }
        if recipe.contains("at once") {
            let question = json!({ "fields": { "field.receiver": "shop-7" } }).to_string();
            let held = (0..21).filter(|_| {
                let (_, said) = client.ask("POST", "/v1/acquire", &question).unwrap();
                serde_json::from_str::<Value>(&said).unwrap()["allowed"] == true
            });
            assert_eq!(held.count(), 20);
        }
    }
}
