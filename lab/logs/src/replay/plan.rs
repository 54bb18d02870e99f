//! The limits to replay, and under which strategies.

use std::str::FromStr;

use tollgate::{LimitSet, ParseError, Strategy};

/// The strategies under which a plan runs its limits: the `--strategy` option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum StrategyChoice {
    /// Each limit under its own `via`, or the default of a bare quota.
    #[default]
    AsWritten,
    /// This strategy supplies the `via`; a limit with its own `via` is an error.
    One(Strategy),
    /// Every strategy in turn supplies the `via`.
    All,
}

impl FromStr for StrategyChoice {
    type Err = ParseError;

    /// Parses `all` or the name of a strategy.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        if text == "all" {
            return Ok(Self::All);
        }
        Strategy::named(text).map(Self::One).ok_or_else(|| {
            let names: Vec<&str> = Strategy::RATES.iter().map(|s| s.name()).collect();
            let remedy = format!("write all, or one of {}", names.join(", "));
            ParseError::whole(text, format!("unknown strategy `{}`", text.escape_debug()), remedy)
        })
    }
}

/// The cases of a replay.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Plan {
    /// The cases, at least one, in the order in which they run.
    pub cases: Vec<Case>,
    /// The strategies that [`StrategyChoice::All`] cannot run, in the same order.
    pub refused: Vec<Refused>,
}

/// Limits that every event is checked against, all or nothing.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Case {
    /// The name of the strategy; for limits with several strategies, each once, joined by `,`.
    pub strategy: String,
    /// The limits.
    pub limits: LimitSet,
}

/// A strategy that does not support the limits. This is not an error: the other strategies run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused {
    /// The strategy.
    pub strategy: Strategy,
    /// The reason, and the support that it has.
    pub why: ParseError,
}

impl Plan {
    /// A plan for the limits of `texts`. Several texts form one set, as if joined by `,`: an event
    /// is admitted when every limit admits it.
    ///
    /// # Errors
    /// The limits are invalid or unsupported; for [`StrategyChoice::All`] this is the first
    /// strategy's error when no strategy supports the limits.
    ///
    /// # Examples
    /// ```
    /// use tollgate::Strategy;
    /// use tollgate_logs::replay::{Plan, StrategyChoice};
    ///
    /// let plan = Plan::new(&["5/10s", "100/1h"], StrategyChoice::One(Strategy::Gcra))?;
    /// assert_eq!(plan.cases[0].text(), "5/10s burst 5 via gcra, 100/h burst 100 via gcra");
    /// let all = Plan::new(&["5/10s"], StrategyChoice::All)?;
    /// assert_eq!(all.cases.len(), Strategy::RATES.len());
    /// // A sliding window needs a tenth of its duration in whole microseconds.
    /// let odd = Plan::new(&["7/3us"], StrategyChoice::All)?;
    /// assert_eq!(odd.refused[0].strategy, Strategy::SlidingWindow);
    /// # Ok::<(), tollgate::ParseError>(())
    /// ```
    pub fn new(texts: &[impl AsRef<str>], choice: StrategyChoice) -> Result<Self, ParseError> {
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        let text = texts.join(", ");
        let (mut cases, mut refused) = (Vec::new(), Vec::new());
        match choice {
            StrategyChoice::AsWritten => cases.push(Case::new(text.parse()?)),
            StrategyChoice::One(strategy) => {
                cases.push(Case::new(LimitSet::parse_with(&text, strategy)?));
            }
            StrategyChoice::All => {
                for &strategy in Strategy::RATES {
                    match LimitSet::parse_with(&text, strategy) {
                        Ok(limits) => cases.push(Case::new(limits)),
                        Err(why) => refused.push(Refused { strategy, why }),
                    }
                }
                // If every strategy refuses the limits, the text is wrong.
                if cases.is_empty() && !refused.is_empty() {
                    return Err(refused.swap_remove(0).why);
                }
            }
        }
        Ok(Self { cases, refused })
    }
}

impl Case {
    /// A case of these limits.
    #[must_use]
    pub fn new(limits: LimitSet) -> Self {
        let mut names: Vec<&str> = Vec::new();
        for limit in limits.limits() {
            let name = limit.strategy().name();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Self { strategy: names.join(","), limits }
    }

    /// The full text of the limits, in declared order, joined by `, `.
    #[must_use]
    pub fn text(&self) -> String {
        let texts: Vec<String> = self.limits.limits().iter().map(ToString::to_string).collect();
        texts.join(", ")
    }
}
