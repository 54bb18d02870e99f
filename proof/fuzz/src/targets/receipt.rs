//! Receipts as text: a parsed one is written the same.

use tollgate::Receipt;

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
