//! The families of thresholds and of the webhook.

use core::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::family::counter;
use crate::thresholds::{Delivery, ThresholdCounts};

pub(super) fn thresholds(
    counts: &ThresholdCounts,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let help = "Limits that reached a threshold, as far as this instance reported it.";
    let mut reached = counter(encoder, "tollgate_thresholds", help)?;
    for (policy, threshold, count) in counts.reached() {
        reached.count([("policy", &*policy), ("threshold", &*threshold.percent())], count)?;
    }
    let help = "Charges that reached a threshold, and were not reported.";
    counter(encoder, "tollgate_thresholds_lost", help)?.count([], counts.get_lost())?;
    let help = "Reports of thresholds to the webhook.";
    let mut deliveries = counter(encoder, "tollgate_webhook_deliveries", help)?;
    let mut each = Delivery::ALL.into_iter();
    each.try_for_each(|it| deliveries.count([("result", it.name())], counts.get(it)))
}
