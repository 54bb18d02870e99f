//! The promises of answers, for random limits and histories: waiting for `Retry-After` is enough,
//! no field promises more than the limit gives, and every field can be read back.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;
use sfv::{BareItem, List, ListEntry, Parser};
use tollgate::{Ask, LimitSet, Limiter, ManualClock, MemoryStore, Strategy as Counting, Verdict};
use tollgate_tower::answer::{Answers, HeaderTemplate, Profile, Reset, Wire};

/// Limits of every strategy, with the options of each; some have no exact form and are left out.
fn limits() -> impl Strategy<Value = LimitSet> {
    let period = prop_oneof![
        Just("s".to_owned()),
        Just("m".to_owned()),
        Just("h".to_owned()),
        (1u64..5_000).prop_map(|ms| format!("{ms}ms")),
        (1u64..100).prop_map(|s| format!("{s}s")),
    ];
    let option = (0..4usize, 1u64..300);
    let one = (1u64..200, period, 0..Counting::ALL.len(), option);
    prop::collection::vec(one, 1..4).prop_filter_map("refused", |parts| {
        let each = parts.into_iter().enumerate().map(|(index, (units, period, via, option))| {
            let via = Counting::ALL[via];
            let takes = |name: &str| via.options().contains(&name);
            let extra = match option {
                (0, burst) if takes("burst") => format!(" burst {burst}"),
                (1, _) if takes("refill") => " refill interval".to_owned(),
                (2, _) if takes("anchor") => " anchor first-hit".to_owned(),
                (3, _) if takes("rounding") => " rounding interpolate".to_owned(),
                _ => String::new(),
            };
            format!("n{index}: {units}/{period}{extra} via {via}")
        });
        each.collect::<Vec<_>>().join(", ").parse().ok()
    })
}

/// The parameters of the only item of `RateLimit`, and of the items of `RateLimit-Policy`.
fn read(value: &HeaderValue) -> Vec<(String, Vec<(String, u64)>)> {
    let list: List = Parser::new(value.as_bytes()).parse().unwrap();
    list.into_iter()
        .map(|entry| {
            let ListEntry::Item(item) = entry else { panic!("{value:?}") };
            let BareItem::String(name) = item.bare_item else { panic!("{value:?}") };
            let params = item.params.into_iter().map(|(key, value)| match value {
                BareItem::Integer(number) => {
                    (key.as_str().to_owned(), u64::try_from(i64::from(number)).unwrap())
                }
                other => panic!("{other:?}"),
            });
            (name.as_str().to_owned(), params.collect())
        })
        .collect()
}

fn number(headers: &HeaderMap, name: &str) -> u64 {
    headers[name].to_str().unwrap().parse().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn a_client_that_obeys_retry_after_is_admitted(
        set in limits(),
        start_us in 1_763_632_025_000_000u64..1_763_632_125_000_000,
        asks in prop::collection::vec((1u64..60, 0u64..3_000_000), 1..30),
        epoch in any::<bool>(),
    ) {
        let clock = ManualClock::at_micros(start_us);
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let limiter = Limiter::new(set, store);
        let template = HeaderTemplate::new("api", limiter.limits()).unwrap();
        let answers = Answers::new(Profile::Both(if epoch { Reset::Epoch } else { Reset::Delta }));
        let policies = read(&template.policy().parse().unwrap());
        prop_assert_eq!(policies.len(), limiter.limits().limits().len());
        for (cost, pause_us) in asks {
            clock.advance(Duration::from_micros(pause_us));
            let decision = limiter.check(Ask::new("bob").cost(cost)).now().unwrap();
            let response = answers.refused(Wire::Http, &[&template], &decision);
            prop_assert_eq!(response.is_none(), decision.is_allowed());
            let mut headers = HeaderMap::new();
            match &response {
                Some(response) => headers = response.headers().clone(),
                None => answers.mark(&mut headers, &[&template], &decision),
            }
            prop_assert_eq!(read(&headers["ratelimit-policy"]), policies.clone());
            let shown = read(&headers["ratelimit"]);
            let [(name, params)] = shown.as_slice() else { panic!("{shown:?}") };
            let [(r_key, r), (t_key, t)] = params.as_slice() else { panic!("{params:?}") };
            prop_assert_eq!((r_key.as_str(), t_key.as_str()), ("r", "t"));
            let (remaining, wait) = (*r, *t);
            let binding = decision.binding();
            prop_assert!(name.ends_with(binding.limit().name().unwrap()) || policies.len() == 1);
            prop_assert!(remaining <= binding.remaining());
            prop_assert_eq!(number(&headers, "x-ratelimit-remaining"), remaining);
            prop_assert_eq!(number(&headers, "x-ratelimit-limit"), binding.limit().capacity());
            let reset = number(&headers, "x-ratelimit-reset");
            let at_us = decision.at().as_micros();
            if epoch {
                let at = at_us / 1_000_000;
                prop_assert!(at + wait <= reset && reset <= at + wait + 1);
            } else {
                prop_assert_eq!(reset, wait);
            }
            // A bucket that refills steadily: never more a second than its rate.
            let quota = binding.limit().quota();
            if quota.burst.is_some() && !matches!(quota.refill, Some(tollgate::Refill::Interval)) {
                let given = u128::from(wait) * 1_000_000 * u128::from(quota.units);
                prop_assert!(u128::from(remaining) * u128::from(quota.period.as_micros()) <= given);
            }
            let Some(response) = response else { continue };
            let body: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
            let violated = body["violated-policies"].as_array().unwrap();
            prop_assert!(!violated.is_empty());
            for name in violated {
                prop_assert!(policies.iter().any(|(policy, _)| policy == name.as_str().unwrap()));
            }
            prop_assert_eq!(&response.headers()["cache-control"], "no-store");
            match decision.verdict() {
                Verdict::NotYet(exact) => {
                    prop_assert_eq!(response.status().as_u16(), 429);
                    let seconds = number(&headers, "retry-after");
                    prop_assert!(seconds >= 1 && seconds >= wait);
                    prop_assert!(Duration::from_secs(seconds) >= exact);
                    prop_assert!(Duration::from_secs(seconds - 1) < exact);
                    clock.advance(Duration::from_secs(seconds));
                    let again = limiter.check(Ask::new("bob").cost(cost)).now().unwrap();
                    prop_assert!(again.is_allowed(), "{}", again);
                }
                _ => {
                    prop_assert_eq!(response.status().as_u16(), 422);
                    prop_assert!(!headers.contains_key("retry-after"));
                }
            }
        }
    }

    #[test]
    fn any_name_can_be_read_back(name in ".{1,12}") {
        let set: LimitSet = "1/h via gcra".parse().unwrap();
        let template = HeaderTemplate::new(&name, &set).unwrap();
        let policies = read(&template.policy().parse().unwrap());
        let [(read_name, params)] = policies.as_slice() else { panic!("{policies:?}") };
        prop_assert_eq!(params, &[("q".to_owned(), 1), ("w".to_owned(), 3_600)]);
        let plain = name.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'%');
        prop_assert_eq!(plain, *read_name == name);
    }
}
