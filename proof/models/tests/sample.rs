//! The small worlds of each model, to the end: as stated, and each bound reached.
#![allow(clippy::unwrap_used)] // a test may

use tollgate_models::{MODELS, check, show};

fn keeps_its_promises(model: &str) {
    for found in check(model, true, 1).unwrap() {
        assert!(
            found.is_good(),
            "{}\n{}",
            show::line(&found),
            show::table(std::slice::from_ref(&found))
        );
        assert!(found.states > 100, "{} has few states", found.world);
    }
}

macro_rules! models {
    ($($model:ident)+) => {
        $(
            #[test]
            fn $model() {
                keeps_its_promises(stringify!($model));
            }
        )+

        #[test]
        fn each_model_is_here() {
            assert_eq!([$(stringify!($model)),+], MODELS);
        }
    };
}

models!(leases requests holds failover denials shares queue receipts bans slots);

#[test]
fn a_name_without_a_model_is_refused() {
    let error = check("nothing", true, 1).unwrap_err().to_string();
    assert!(error.starts_with("no model `nothing`; there are: leases, requests"), "{error}");
}
