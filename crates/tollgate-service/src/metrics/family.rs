//! One family of metrics on the page, and its series.

use core::fmt;
use std::collections::BTreeMap;

use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use tollgate_policy::{Authority, Counters, Outcome};

use super::latency::Latency;

/// One metric family of the page.
pub(super) struct Family<'e>(MetricEncoder<'e>);

/// One label.
pub(super) type Label<'l> = (&'static str, &'l str);

impl Family<'_> {
    pub(super) fn count<const N: usize>(
        &mut self,
        labels: [Label<'_>; N],
        count: u64,
    ) -> fmt::Result {
        if N == 0 {
            return self.0.encode_counter::<NoLabelSet, _, f64>(&count, None);
        }
        self.0.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(&count, None)
    }

    /// Writes a counter without labels that counts by fractions.
    pub(super) fn amount(mut self, amount: f64) -> fmt::Result {
        self.0.encode_counter::<NoLabelSet, _, f64>(&amount, None)
    }

    /// Writes all nonzero counters with these labels. Those in `always` are also written at zero,
    /// so that their first increase is visible.
    pub(super) fn counters<const N: usize>(
        &mut self,
        labels: [Label<'_>; N],
        counters: &Counters,
        always: &[(Outcome, Authority)],
    ) -> fmt::Result {
        for outcome in Outcome::ALL {
            for authority in Authority::ALL {
                let count = counters.get(outcome, authority);
                if count > 0 || always.contains(&(outcome, authority)) {
                    let said = [("outcome", outcome.name()), ("authority", authority.name())];
                    let labels = (labels, said);
                    let mut family = self.0.encode_family(&labels)?;
                    family.encode_counter::<NoLabelSet, _, f64>(&count, None)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn value(mut self, value: f64) -> fmt::Result {
        self.0.encode_gauge(&value)
    }

    pub(super) fn gauge(&mut self, label: Label<'_>, value: impl EncodeGaugeValue) -> fmt::Result {
        self.0.encode_family(&[label])?.encode_gauge(&value)
    }

    pub(super) fn histogram(&mut self, labels: [Label<'_>; 1], latency: &Latency) -> fmt::Result {
        let seen = latency.counted();
        let mut family = self.0.encode_family(&labels)?;
        family.encode_histogram::<NoLabelSet>(seen.sum_seconds, seen.count, &seen.buckets, None)
    }
}

/// Begins a metric family.
pub(super) fn family<'e>(
    encoder: &'e mut DescriptorEncoder<'_>,
    (name, help): (&'e str, &str),
    unit: Option<&'e Unit>,
    kind: MetricType,
) -> Result<Family<'e>, fmt::Error> {
    encoder.encode_descriptor(name, help, unit, kind).map(Family)
}

pub(super) fn counter<'e>(
    encoder: &'e mut DescriptorEncoder<'_>,
    name: &'e str,
    help: &str,
) -> Result<Family<'e>, fmt::Error> {
    family(encoder, (name, help), None, MetricType::Counter)
}

/// Counts amounts by unit; requests always, so that their series begins at 0.
pub(super) fn units(
    mut family: Family<'_>,
    mut amounts: BTreeMap<tollgate::Unit, u64>,
) -> fmt::Result {
    amounts.entry(tollgate::Unit::REQUESTS).or_default();
    amounts.iter().try_for_each(|(unit, amount)| family.count([("unit", unit.name())], *amount))
}

pub(super) fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    unit: Option<&Unit>,
    value: u64,
) -> fmt::Result {
    family(encoder, (name, help), unit, MetricType::Gauge)?.0.encode_gauge(&value)
}

pub(super) fn info(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    label: Label<'_>,
) -> fmt::Result {
    family(encoder, (name, help), None, MetricType::Info)?.0.encode_info(&[label])
}
