//! A file of time lines with holds as it is to be written.

use super::super::VectorError;
use super::{LineAnswer, parse};

/// Writes a file of time lines with the oracle's answers in place of those that it has. Its
/// comments, limits and questions stay as they are.
///
/// # Errors
///
/// The first line that cannot be read, or to which the definitions leave the answer open.
pub fn write(text: &str) -> Result<String, VectorError> {
    write_with(text, |questions| {
        let mut answers = Vec::new();
        for time_line in parse(questions)? {
            let numbers = time_line.lines.iter().map(|line| line.number);
            answers.extend(numbers.zip(time_line.run()?));
        }
        Ok(answers)
    })
}

/// Writes a file with the answers of `run` to its questions, each with the number of its line.
pub(in crate::vectors) fn write_with(
    text: &str,
    run: impl FnOnce(&str) -> Result<Vec<(usize, Option<LineAnswer>)>, VectorError>,
) -> Result<String, VectorError> {
    let questions: Vec<String> = text.lines().map(question_of).collect();
    let mut answers: Vec<Option<LineAnswer>> = vec![None; questions.len()];
    for (number, answer) in run(&questions.join("\n"))? {
        if let Some(place) = answers.get_mut(number - 1) {
            *place = answer;
        }
    }
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (question, answer) in questions.iter().zip(answers) {
        rows.push(match answer {
            None => vec![question.clone()],
            Some(answer) => {
                let asked = question.split('|').map(|cell| cell.trim().to_owned());
                asked.chain(answer.cells()).collect()
            }
        });
    }
    Ok(aligned(&rows))
}

/// A line without its answers.
fn question_of(line: &str) -> String {
    let line = line.trim_end();
    if line.starts_with('#') || line.starts_with("limits:") || line.starts_with("change:") {
        return line.to_owned();
    }
    line.split('|').take(2).map(str::trim).collect::<Vec<_>>().join(" | ")
}

/// Rows whose columns are as wide as the widest cell of the whole file.
fn aligned(rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows.iter().filter(|row| row.len() > 1) {
        for (column, cell) in row.iter().enumerate() {
            match widths.get_mut(column) {
                Some(width) => *width = cell.len().max(*width),
                None => widths.push(cell.len()),
            }
        }
    }
    let mut text = String::new();
    for row in rows {
        let padded = row.iter().zip(&widths).map(|(cell, width)| match row.len() {
            1 => cell.clone(),
            _ => format!("{cell:width$}"),
        });
        text.push_str(padded.collect::<Vec<_>>().join(" | ").trim_end());
        text.push('\n');
    }
    text
}
