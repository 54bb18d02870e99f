//! Decisions as every front writes them: the reader for `vectors/wire/decisions.txt`.

use serde_json::{Map, Value};

/// The file.
pub const DECISIONS: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/vectors/wire/decisions.txt"));

/// The largest difference of a wait between a stopped clock and a real one, in seconds.
const SLOWNESS: f64 = 60.0;

/// The question, and the answer of every front.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "plain data")]
pub struct Asked {
    /// A description of the question.
    pub about: &'static str,
    /// The last part of its path over HTTP, such as `check`.
    pub act: &'static str,
    /// Its body over HTTP. The hold `HOLD` is that of the reservation before.
    pub question: Value,
    /// The answer, as it is written.
    pub text: &'static str,
    /// The same.
    pub answer: Value,
}

impl Asked {
    /// A text of the question.
    #[must_use]
    pub fn text(&self, key: &str) -> &str {
        self.question[key].as_str().unwrap_or_default()
    }

    /// The cost that is asked for, or was used.
    #[must_use]
    pub fn cost(&self) -> u64 {
        [&self.question["cost"], &self.question["actual"]]
            .into_iter()
            .find_map(Value::as_u64)
            .unwrap_or_default()
    }

    /// The answer of a front, with the values of the file where only clock, signature or policies
    /// differ. It is `answer` then, with its fields in their order.
    #[must_use]
    pub fn settled(&self, said: &Value) -> Value {
        settled(&self.answer, said)
    }
}

/// The questions of the file, in the order in which one store is asked.
///
/// # Errors
/// A part of the file is not a question with its answer.
pub fn decisions() -> Result<Vec<Asked>, String> {
    DECISIONS.trim().split("\n\n").map(read).collect()
}

fn read(part: &'static str) -> Result<Asked, String> {
    let mut lines = part.lines();
    let mut line = || lines.next().ok_or_else(|| format!("a line is missing in: {part}"));
    let (about, question, text) = (line()?, line()?, line()?);
    let about = about.strip_prefix("# ").ok_or_else(|| format!("no comment: {about}"))?;
    let (act, question) = question.split_once(' ').ok_or_else(|| format!("no act: {question}"))?;
    let json = |text| serde_json::from_str(text).map_err(|error| format!("{error} in: {text}"));
    Ok(Asked { about, act, question: json(question)?, text, answer: json(text)? })
}

fn settled(golden: &Value, said: &Value) -> Value {
    match (golden, said) {
        (Value::Object(golden), Value::Object(said)) if golden.contains_key("seconds") => {
            Value::Object(if is_as_long(golden, said) { golden.clone() } else { said.clone() })
        }
        (Value::Object(golden), Value::Object(said)) => {
            let field = |(name, said): (&String, &Value)| {
                let golden = golden.get(name).unwrap_or(&Value::Null);
                let is_own = match name.as_str() {
                    "revision" => said.is_string(),
                    "hold" => golden.is_string() && said.is_string(),
                    "at_us" | "fence" => golden.is_u64() && said.is_u64(),
                    _ => false,
                };
                let value = if is_own { golden.clone() } else { settled(golden, said) };
                (name.clone(), value)
            };
            Value::Object(said.iter().map(field).collect())
        }
        (Value::Array(golden), Value::Array(said)) if golden.len() == said.len() => Value::Array(
            golden.iter().zip(said).map(|(golden, said)| settled(golden, said)).collect(),
        ),
        (_, said) => said.clone(),
    }
}

/// Whether both are waits, and the second is at most a little shorter.
fn is_as_long(golden: &Map<String, Value>, said: &Map<String, Value>) -> bool {
    let seconds = |wait: &Map<String, Value>| wait.get("seconds").and_then(Value::as_f64);
    let (Some(most), Some(told)) = (seconds(golden), seconds(said)) else { return false };
    let is_near = told <= most && told > most - SLOWNESS && (most == 0.0) == (told == 0.0);
    is_near && said.len() == golden.len() && said.get("text").is_some_and(Value::is_string)
}
