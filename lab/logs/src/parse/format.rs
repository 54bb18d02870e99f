//! The formats of logs.

use std::fmt;
use std::str::FromStr;

/// A format of lines: the `--format` option. Without it, each line is read in the format that it
/// seems to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Common and combined logs, as Apache and nginx write them.
    Combined,
    /// JSON lines: an object on each.
    Json,
    /// Columns whose names are the first line, with `,`, `;` or tabs between them.
    Csv,
    /// Columns whose names are on a line `#Fields:`, as IIS, CloudFront and Zeek write them.
    W3c,
    /// Application Load Balancers of AWS.
    Alb,
    /// Classic Load Balancers of AWS.
    Elb,
    /// Server access logs of S3.
    S3,
    /// The default format of Envoy, and Istio's.
    Envoy,
    /// `option httplog` of HAProxy.
    Haproxy,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 9] = [
        Self::Combined,
        Self::Json,
        Self::Csv,
        Self::W3c,
        Self::Alb,
        Self::Elb,
        Self::S3,
        Self::Envoy,
        Self::Haproxy,
    ];

    /// The name for `--format`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Combined => "combined",
            Self::Json => "json",
            Self::Csv => "csv",
            Self::W3c => "w3c",
            Self::Alb => "alb",
            Self::Elb => "elb",
            Self::S3 => "s3",
            Self::Envoy => "envoy",
            Self::Haproxy => "haproxy",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|format| format.name() == text);
        found.ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|format| format.name()).collect();
            format!("there is no format `{text}`: there are {}", names.join(", "))
        })
    }
}

/// Facts about a log that the caller knows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Hints {
    /// The format of all lines.
    pub format: Option<Format>,
    /// The field with the time.
    pub time_field: Option<String>,
    /// The field with the client's address.
    pub client_field: Option<String>,
}
