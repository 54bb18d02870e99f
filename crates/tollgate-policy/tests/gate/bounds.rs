//! How much a request may take, and where its counts are kept.

use std::sync::Mutex;

use tollgate::operation::Operation;
use tollgate::{Around, StoreError};
use tollgate_policy::{Field, Fields};

use super::*;

/// The future can be spawned, and holds nothing of the request.
#[test]
fn a_question_outlives_its_request() {
    fn spawned<F: Send>(future: F) -> F {
        future
    }
    struct Local(std::rc::Rc<str>);
    impl Fields for Local {
        fn field(&self, field: &Field) -> Option<std::borrow::Cow<'_, str>> {
            (*field == Field::Ip).then(|| std::borrow::Cow::Borrowed(&*self.0))
        }
    }
    let (gate, _) = gate(&hourly(1));
    let future = spawned(gate.check(&Local("1.1.1.1".into())));
    assert!(block_on(future).is_allowed());
    assert!(!ask(&gate, &[("ip", "1.1.1.1")]).is_allowed());
}

fn entries(name: &str, count: usize) -> String {
    let entry = |i| format!("{{ subject = \"{name}{i}=a\", limit = \"1/s\" }}");
    (0..count).map(entry).collect::<Vec<_>>().join(", ")
}

fn of_all(name: &str, on_failure: &str, lines: &str) -> String {
    format!(
        "[[policies]]\nname = \"{name}\"\non_failure = \"{on_failure}\"\nshard = \"never\"\n\
         when.method = \"GET\"\n{lines}\n"
    )
}

/// Over 16 subjects nobody is asked, and nobody is admitted, whatever the rules for a store that
/// fails: or who makes more policies apply would get around all of them.
#[test]
fn too_many_subjects_are_denied() {
    let outcome = |last: &str| {
        let limits = |name| format!("limits = [{}]", entries(name, 10));
        let (a, b) = (of_all("a", "allow", &limits("a")), of_all("b", "allow", &limits("b")));
        let text = format!("version = 1\nmatch = \"all\"\n{a}{b}{last}");
        let fields = [("ip", "10.0.0.1"), ("host", "a"), ("method", "GET")];
        ask(&gate(&text).0, &fields).outcome()
    };
    assert_eq!(outcome(""), Outcome::FailedClosed);
    let denies = of_all("c", "deny", &format!("limits = [{}]", entries("c", 1)));
    assert_eq!(outcome(&denies), Outcome::FailedClosed);
    let user = "limits = [{ subject = \"user\", limit = \"1/s\", absent = \"deny\" }]";
    assert_eq!(outcome(&of_all("c", "allow", user)), Outcome::Missing);
}

#[test]
fn policies_in_shadow_are_few_where_all_are_asked() {
    let text = |combine: &str, count: usize| {
        let mut text = format!("version = 1\nmatch = \"{combine}\"\n");
        for i in 0..count {
            let lines = format!("shadow = true\nlimits = [{}]", entries("s", 1));
            text.push_str(&of_all(&format!("s{i}"), "allow", &lines));
        }
        text
    };
    assert!(Policies::parse(&text("all", 16), Format::Toml).is_ok());
    assert!(Policies::parse(&text("first", 17), Format::Toml).is_ok());
    let problems = Policies::parse(&text("all", 17), Format::Toml).unwrap_err();
    assert!(problems.to_string().contains("more than 16 policies are in shadow"), "{problems}");
}

/// The shard of a policy reaches the store; where policies that are asked together disagree, none
/// does, so that the name of a count does not depend on which of them apply.
#[test]
fn the_shard_reaches_the_store() {
    struct Sharded(MemoryStore, Mutex<Vec<Option<String>>>);
    impl Around for Sharded {
        type Inner = MemoryStore;

        fn inner(&self) -> &MemoryStore {
            &self.0
        }

        async fn answer<O: Operation>(&self, operation: &O) -> Result<O::Answer, StoreError> {
            if let Some(question) = operation.question() {
                self.1.lock().unwrap().push(question.shard().map(str::to_owned));
            }
            self.0.perform(operation).await
        }
    }
    let policy = |name: &str, shard: &str| {
        format!(
            "[[policies]]\nname = \"{name}\"\non_failure = \"deny\"\nshard = \"{shard}\"\n\
             limits = [{{ subject = [\"user\", \"ip\"], limit = \"9/s\", absent = \"skip\" }}]\n"
        )
    };
    let shards = |combine: &str, one: &str, two: &str| {
        let (one, two) = (policy("one", one), policy("two", two));
        let text = format!("version = 1\nmatch = \"{combine}\"\n{one}{two}");
        let store = Sharded(MemoryStore::new(), Mutex::default());
        let gate = Gate::new(parse(&text), store).unwrap();
        let answer = ask(&gate, &[("ip", "10.0.0.1"), ("user", "ann")]);
        assert!(answer.is_allowed());
        assert!(block_on(gate.charge_extra(&answer, 2)).unwrap().is_some());
        let shards = gate.store().1.lock().unwrap().clone();
        assert_eq!(shards.len(), 2);
        assert_eq!(shards[0], shards[1], "charged where it was asked");
        shards[..1].to_vec()
    };
    assert_eq!(shards("first", "user", "ip"), [Some("ann".to_owned())]);
    assert_eq!(shards("first", "never", "ip"), [None]);
    assert_eq!(shards("all", "user", "user"), [Some("ann".to_owned())]);
    assert_eq!(shards("all", "user", "ip"), [None]);
    assert_eq!(shards("all", "user", "never"), [None]);
}

#[test]
fn a_prefix_of_a_path_is_the_path_without_its_slash_too() {
    let text =
        one("when = { path = \"/api/*\" }\nlimits = [{ subject = \"ip\", limit = \"9/s\" }]");
    let (gate, _) = gate(&text);
    for (path, outcome) in [
        ("/api", Outcome::Allowed),
        ("/api/", Outcome::Allowed),
        ("/api/a", Outcome::Allowed),
        ("/apis", Outcome::NoPolicy),
        ("/", Outcome::NoPolicy),
    ] {
        assert_eq!(ask(&gate, &[("ip", "10.0.0.1"), ("path", path)]).outcome(), outcome, "{path}");
    }
}
