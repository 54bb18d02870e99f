//! The advice in error messages.

use super::foreign;
use crate::error::ParseError;
use crate::limit::Quota;
use crate::strategy::Strategy;

/// One line per strategy: what `quota` means under it.
pub(super) fn choices(quota: &Quota) -> String {
    let lines: Vec<String> = Strategy::RATES
        .iter()
        .map(|strategy| match strategy.compile(quota) {
            Ok(_) => {
                let traits = strategy.traits(quota);
                format!(
                    "    via {:<15} at most {} in any {}; sustained {}; bytes per subject: {}",
                    strategy.name(),
                    traits.worst_window,
                    quota.period,
                    traits.sustained,
                    traits.bytes
                )
            }
            Err(refusal) => format!("    via {:<15} not here: {}", strategy.name(), refusal.what),
        })
        .collect();
    lines.join("\n")
}

/// `did you mean `x`? ` if a name is similar, else empty.
pub(super) fn did_you_mean<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    names
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(word, name), name))
        .min()
        .filter(|(distance, name)| *distance <= name.len().div_ceil(3))
        .map_or_else(String::new, |(_, name)| format!("did you mean `{name}`? "))
}

/// All strategies, after the one with the most similar name.
pub(super) fn similar_names(word: &str) -> String {
    let names = Strategy::RATES.iter().map(|strategy| strategy.name());
    let hint = did_you_mean(word, names.clone());
    let intro = if hint.is_empty() { "the" } else { "The" };
    format!("{hint}{intro} strategies are {}", list(names))
}

impl core::str::FromStr for Strategy {
    type Err = ParseError;

    /// The strategy of that name, as [`Strategy::named`]. If the name is another tool's name for an
    /// algorithm, the error contains the strategy's name here.
    ///
    /// ```
    /// use tollgate::Strategy;
    /// assert_eq!("gcra".parse(), Ok(Strategy::Gcra));
    /// let error = "moving_window".parse::<Strategy>().unwrap_err();
    /// assert_eq!(error.remedy(), "write `sliding_log`");
    /// ```
    fn from_str(name: &str) -> Result<Self, ParseError> {
        Self::named(name).ok_or_else(|| {
            // A name on its own is written without `via`.
            let remedy = foreign::strategy(name)
                .map_or_else(|| similar_names(name), |remedy| remedy.replace("`via ", "`"));
            let what = format!("unknown strategy `{}`", name.escape_default());
            ParseError::whole(name, what, remedy)
        })
    }
}

/// `a, b and c`.
pub(super) fn list<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let names: Vec<_> = names.into_iter().collect();
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}
