//! The JSON format of the failure rule of inline limits: a word, or `{"local": "25 %"}`.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use tollgate_policy::OnFailure;

use super::problem::Problem;
use super::text::Text;
use crate::service::Service;

/// A failure rule as it is written.
#[derive(Debug)]
pub(crate) enum OnFailureJson<'a> {
    Word(Text<'a>),
    Local(Text<'a>),
}

impl OnFailureJson<'_> {
    /// The failure rule.
    ///
    /// # Errors
    /// An unknown word, an invalid share, or `local` without a share where the policies name no
    /// number of nodes.
    pub(crate) fn read(&self, service: &Service) -> Result<OnFailure, Problem> {
        match self {
            Self::Word(Text(word)) => {
                service.failure_rule(word).map_err(|why| Problem::bad(why).at("on_failure"))
            }
            Self::Local(Text(share)) => match share.parse() {
                Ok(share) => Ok(OnFailure::Local(share)),
                Err(error) => {
                    let error: tollgate::ParseError = error;
                    let why = format!("{}: {}", error.what(), error.remedy());
                    Err(Problem::bad(why).at("on_failure.local"))
                }
            },
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for OnFailureJson<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Rule;
        impl<'de> Visitor<'de> for Rule {
            type Value = OnFailureJson<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"deny\", \"allow\" or a share, e.g. {\"local\": \"25 %\"}")
            }

            fn visit_borrowed_str<E: de::Error>(self, word: &'de str) -> Result<Self::Value, E> {
                Text::of(word.into()).map(OnFailureJson::Word)
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Self::Value, E> {
                Text::of(word.to_owned().into()).map(OnFailureJson::Word)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut share = None;
                while let Some(Text(key)) = map.next_key()? {
                    if key != "local" || share.is_some() {
                        let why =
                            "a failure rule has the one key `local`, e.g. {\"local\": \"25 %\"}";
                        return Err(de::Error::custom(why));
                    }
                    share = Some(map.next_value()?);
                }
                share.map(OnFailureJson::Local).ok_or_else(|| de::Error::missing_field("local"))
            }
        }
        deserializer.deserialize_any(Rule)
    }
}
