//! The cost of the layer's parts for one request: `cargo bench -p tollgate-tower`. It prints the
//! median of many rounds in nanoseconds; nothing here is asserted.

#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;
use std::time::Instant;

use http::{HeaderMap, Request};
use tollgate::Limiter;
use tollgate_tower::answer::{Answers, HeaderTemplate, Profile, Reset, Wire};
use tollgate_tower::identity::{
    AddressHeader, ApiKey, Case, ClientAddress, Hashing, Head, Identity,
};

const ROUNDS: usize = 101;
const CALLS: u32 = 20_000;

/// The median of the rounds, in nanoseconds a call.
fn measure(what: &str, mut call: impl FnMut()) {
    let mut rounds: Vec<u128> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..CALLS).for_each(|_| call());
            start.elapsed().as_nanos()
        })
        .collect();
    rounds.sort_unstable();
    println!("{:>6} ns  {what}", rounds[ROUNDS / 2] / u128::from(CALLS));
}

fn main() {
    let one = Limiter::memory("1000000000/s via gcra".parse().unwrap());
    let three = Limiter::memory(
        "1000000/s via gcra, 60000000/m via gcra, 240000000/h via gcra".parse().unwrap(),
    );
    let decision = one.check("ip:192.0.2.7").now().unwrap();
    let several = three.check("ip:192.0.2.7").now().unwrap();
    let template = HeaderTemplate::new("api", one.limits()).unwrap();
    let templates = HeaderTemplate::new("api", three.limits()).unwrap();
    // A response has some headers, and room for more.
    let response = || {
        let mut headers = HeaderMap::with_capacity(12);
        headers.insert("content-type", "text/plain".parse().unwrap());
        headers
    };
    let mut headers = response();
    // Removing is part of the measurement, so it is measured alone, too.
    for (name, answers) in [
        ("draft", Answers::new(Profile::Draft)),
        ("legacy", Answers::new(Profile::Legacy(Reset::Epoch))),
        ("both", Answers::new(Profile::Both(Reset::Delta))),
    ] {
        measure(&format!("mark, {name}, one limit, into fresh headers"), || {
            let mut headers = HeaderMap::with_capacity(12);
            answers.mark(&mut headers, &[black_box(&template)], black_box(&decision));
            black_box(&headers);
        });
    }
    let answers = Answers::new(Profile::Draft);
    measure("mark, draft, three limits, into fresh headers", || {
        let mut headers = HeaderMap::with_capacity(12);
        answers.mark(&mut headers, &[black_box(&templates)], black_box(&several));
        black_box(&headers);
    });
    measure("mark, none, into fresh headers (what the map itself costs)", || {
        let mut headers = HeaderMap::with_capacity(12);
        Answers::new(Profile::None).mark(&mut headers, &[&template], black_box(&decision));
        black_box(&headers);
    });
    measure("mark, draft, one limit, into headers with room, cleared each time", || {
        answers.mark(&mut headers, &[black_box(&template)], black_box(&decision));
        headers.clear();
    });
    let denied = Limiter::memory("1/h via gcra".parse().unwrap());
    let _ = denied.check("bob").now().unwrap();
    let refusal = denied.check("bob").now().unwrap();
    measure("a whole 429", || {
        black_box(answers.refused(Wire::Http, &[&template], black_box(&refusal)));
    });

    let request = Request::get("/users/42")
        .header("x-forwarded-for", "6.6.6.6, 192.0.2.7, 10.1.2.3")
        .header("forwarded", "for=6.6.6.6, for=192.0.2.7;proto=https, for=10.1.2.3")
        .header("authorization", "Bearer 0123456789abcdef0123456789abcdef")
        .header("x-user", "42")
        .body(())
        .unwrap();
    let head = Head::new(&request).with_peer("10.0.0.1".parse().unwrap()).with_route("/users/{id}");
    let behind =
        |header| Identity::client(ClientAddress::behind("10.0.0.0/8".parse().unwrap(), header));
    let keyed = Hashing::keyed("0123456789abcdef").unwrap();
    for (name, identity) in [
        ("peer", Identity::client(ClientAddress::peer())),
        ("X-Forwarded-For, two hops", behind(AddressHeader::XForwardedFor)),
        ("Forwarded, two hops", behind(AddressHeader::Forwarded)),
        ("header", Identity::header("x-user").unwrap()),
        ("bearer key, HMAC-SHA256", Identity::api_key(ApiKey::bearer(keyed))),
        (
            "bearer key, SHA-256",
            Identity::api_key(ApiKey::bearer(Hashing::plain_for_random_keys())),
        ),
        ("route", Identity::route()),
        ("path", Identity::path(Case::Keep)),
    ] {
        measure(&format!("identity: {name}"), || {
            black_box(identity.value(black_box(&head)).is_ok());
        });
    }
}
