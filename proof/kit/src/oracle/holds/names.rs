//! Holds that their callers name (section 11): the outcome of an ask under a name, and the records
//! of names that are over.

use super::{HoldOracle, Kind, Open, REMEMBERED_US};
use crate::oracle::{Charged, Fields, whole};

/// How often an open hold is answered again.
const MAX_REPEATS: u64 = 16;

/// The most marks of names that no hold had.
const MAX_MARKS: usize = 1_000;

/// A count's knowledge of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    given: Vec<Given>,
    marks: Vec<Mark>,
}

/// A hold that its caller has named, open or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Given {
    name: u64,
    hold: u64,
    asked: (Kind, u64, u64),
    answers: u64,
}

/// That a name is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    name: u64,
    until: i128,
    actual: u64,
    is_early: bool,
}

/// The answer of a name to an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "tests match it")]
pub enum NameSays {
    /// No hold has it, and it is not over.
    New,
    /// An open hold has it, and is answered again.
    Again {
        /// When it ends by itself, in microseconds.
        end_us: u64,
        /// How often it was answered, with this.
        answer: u64,
    },
    /// An open hold has it that was asked for otherwise.
    Differs,
    /// It was answered again as often as it is.
    Repeated,
    /// It was settled, or released before it came.
    Over,
}

/// How a hold is settled by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "tests match it")]
pub enum Ended {
    /// It was open, and is charged.
    Charged(Vec<Charged>),
    /// It was settled before, and this was charged then.
    Already(u64),
    /// No hold has it: a mark was left.
    Early,
    /// No hold has it.
    NotOpen,
}

impl HoldOracle {
    /// The answer of a name to an ask of this kind, cost and time. It changes nothing.
    #[must_use]
    pub fn name_says(&self, now_us: u64, name: u64, asked: (Kind, u64, u64)) -> NameSays {
        let then = self.after(now_us);
        let Some((given, open)) = then.open_under(name) else {
            return match then.marked(name) {
                Some(_) => NameSays::Over,
                None => NameSays::New,
            };
        };
        if given.asked != asked {
            NameSays::Differs
        } else if given.answers > MAX_REPEATS {
            NameSays::Repeated
        } else {
            NameSays::Again { end_us: whole(open.end), answer: given.answers + 1 }
        }
    }

    /// The hold that was placed has this name, and was asked for so.
    pub fn give_name(&mut self, name: u64, hold: u64, asked: (Kind, u64, u64)) {
        self.names.given.retain(|given| given.name != name);
        self.names.given.push(Given { name, hold, asked, answers: 1 });
    }

    /// Answers the open hold of a name again: nothing is placed, and this remains.
    pub fn answer_again(&mut self, now_us: u64, name: u64, guess: &[Fields]) -> Vec<Fields> {
        self.end_due(now_us);
        self.repair(now_us);
        for given in self.names.given.iter_mut().filter(|given| given.name == name) {
            given.answers += 1;
        }
        let after = self.peek(now_us, 1, None, guess);
        after.into_iter().map(|fields| Fields { retry_after_us: Some(0), ..fields }).collect()
    }

    /// The number of the open hold of a name, and its kind.
    #[must_use]
    pub fn hold_named(&self, now_us: u64, name: u64) -> Option<(u64, Kind)> {
        self.after(now_us).open_under(name).map(|(given, _)| (given.hold, given.asked.0))
    }

    /// Settles the hold of a name for `actual` units.
    pub fn settle_named(&mut self, now_us: u64, name: u64, actual: u64) -> Ended {
        self.end_due(now_us);
        self.leave_line(name);
        let at = self.seen;
        if let Some((_, open)) = self.open_under(name) {
            self.open.retain(|other| other.name != open.name);
            self.leave_mark(Mark { name, until: at + REMEMBERED_US, actual, is_early: false });
            return Ended::Charged(self.charge(now_us, actual));
        }
        self.marked(name).map_or(Ended::NotOpen, Ended::Already)
    }

    /// Releases a hold by its name alone. Where no hold has it and it is not over, a mark is left
    /// for as long as a hold lasts under the limits of the caller.
    pub fn release_named(&mut self, now_us: u64, name: u64, hold_us: Option<u64>) -> Ended {
        let ended = self.settle_named(now_us, name, 0);
        if ended != Ended::NotOpen {
            return ended;
        }
        let lasts = hold_us.map_or(REMEMBERED_US, i128::from).min(REMEMBERED_US);
        self.leave_mark(Mark { name, until: self.seen + lasts, actual: 0, is_early: true });
        Ended::Early
    }

    /// Gives back the answer of this number, which reached nobody.
    pub fn give_back(&mut self, now_us: u64, name: u64, answer: u64) -> Ended {
        self.end_due(now_us);
        self.leave_line(name);
        let Some((given, open)) = self.open_under(name) else {
            return self.marked(name).map_or(Ended::NotOpen, Ended::Already);
        };
        if given.answers != answer {
            return Ended::Already(0);
        }
        self.open.retain(|other| other.name != open.name);
        Ended::Charged(self.charge(now_us, 0))
    }

    fn open_under(&self, name: u64) -> Option<(Given, Open)> {
        let given = *self.names.given.iter().find(|given| given.name == name)?;
        let open = *self.open.iter().find(|open| open.name == given.hold)?;
        Some((given, open))
    }

    /// The charge of a name that is over, at the latest time that was seen.
    fn marked(&self, name: u64) -> Option<u64> {
        let mut marks = self.names.marks.iter();
        let found = marks.find(|mark| mark.name == name && mark.until > self.seen);
        found.map(|mark| mark.actual)
    }

    fn leave_mark(&mut self, mark: Mark) {
        let marks = &mut self.names.marks;
        marks.retain(|other| other.name != mark.name);
        let early = marks.iter().filter(|other| other.is_early);
        let first = early.clone().map(|other| other.until).min();
        if mark.is_early && early.count() >= MAX_MARKS {
            let place = marks.iter().position(|it| it.is_early && Some(it.until) == first);
            place.map(|place| marks.remove(place));
        }
        marks.push(mark);
    }
}
