//! The counters of a layer as a page for Prometheus.

use tollgate::Store;
use tollgate_policy::Exposition;

use super::shared::Shared;

impl<S: Store + 'static> Shared<S> {
    /// The counters of the gate and of this layer.
    pub(super) fn metrics(&self) -> Exposition {
        let mut page = self.gate.counters().exposition();
        let charges = self.charging.charges();
        let results = [
            ([("result", "refunded")], charges.refunded),
            ([("result", "not_refunded")], charges.not_refunded),
            ([("result", "charged_more")], charges.charged_more),
            ([("result", "not_charged")], charges.not_charged),
        ];
        page.counter(
            "tollgate_layer_charges_total",
            "Refunds and extra charges after responses, by result.",
            results.iter().map(|(labels, count)| (&labels[..], count)),
        );
        let share = self.times.share();
        let help = "Requests that were timed: one of 64.";
        page.counter("tollgate_layer_timed_requests_total", help, [(&[][..], share.timed)]);
        let help = "The time of timed requests that was spent on limiting.";
        let seconds = share.limiting.as_secs_f64();
        page.counter("tollgate_layer_limiting_seconds_total", help, [(&[][..], seconds)]);
        let help = "The time of timed requests until their responses began, in all.";
        let seconds = share.whole.as_secs_f64();
        page.counter("tollgate_layer_request_seconds_total", help, [(&[][..], seconds)]);
        page
    }
}
