//! Receipts, and credits as stores keep them: what is read is written the same.

use tollgate::engine::Credits;
use tollgate::{MAX_COST, Receipt};

/// The credits of a count: no more is left than was given.
pub(crate) fn credits(data: &[u8]) {
    match super::text(data).parse::<Credits>() {
        Ok(credits) => {
            let written = credits.to_string();
            let again: Credits = written.parse().expect("credits read back");
            assert_eq!((&again, again.to_string()), (&credits, written));
            for credit in credits.iter() {
                assert!(credit.left <= credit.given && credit.given <= MAX_COST, "{credit:?}");
                assert!(credit.end_us <= credits.last_us());
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

pub(crate) fn text(data: &[u8]) {
    match super::text(data).parse::<Receipt>() {
        Ok(receipt) => {
            let written = receipt.to_string();
            let again: Receipt = written.parse().expect("a receipt reads back");
            assert_eq!(again, receipt);
            assert_eq!(again.to_string(), written);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
