//! The names of strategies in options.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use tollgate::Strategy;

/// The names of the strategies, for help and completions.
pub(super) fn strategies() -> StrategyName {
    StrategyName(Strategy::RATES.iter().map(|strategy| strategy.name()).collect::<Vec<_>>().into())
}

/// The same, and `all`.
pub(super) fn strategies_or_all() -> StrategyName {
    let names = Strategy::RATES.iter().map(|strategy| strategy.name());
    StrategyName(names.chain(["all"]).collect::<Vec<_>>().into())
}

/// A name of a strategy. The error for an unknown name is that of limits, which know the names of
/// other tools.
#[derive(Clone)]
pub(super) struct StrategyName(PossibleValuesParser);

impl TypedValueParser for StrategyName {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        let parsed = self.0.parse_ref(command, arg, value);
        let wrong = value.to_str().and_then(|name| name.parse::<Strategy>().err());
        parsed.map_err(|unknown| match wrong {
            Some(wrong) => {
                let text = format!("--strategy: {}: {}\n", wrong.what(), wrong.remedy());
                clap::Error::raw(ErrorKind::InvalidValue, text).with_cmd(command)
            }
            None => unknown,
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        self.0.possible_values()
    }
}
