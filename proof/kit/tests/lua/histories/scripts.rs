//! The scripts that a history runs, composed once for each question that is asked.

use std::collections::HashMap;
use std::rc::Rc;

use tollgate::LimitSet;
use tollgate::engine::Mode;
use tollgate::{Cost, Unit};
use tollgate_redis::Script;
use tollgate_redis::compose::{self, Check, Clock, Parts};

/// Changes the text of a script.
pub(crate) type Edit = Rc<dyn Fn(&str) -> String>;

/// The parts of scripts, and the change to each of them once it is composed.
#[derive(Clone, Default)]
pub(crate) struct Texts {
    pub(crate) parts: Parts,
    pub(crate) edit: Option<Edit>,
}

impl Texts {
    pub(crate) fn script(&self, script: Script) -> Script {
        match &self.edit {
            None => script,
            Some(edit) => Script::new(edit(script.text())),
        }
    }
}

/// The scripts of one version of the texts.
pub(crate) struct Scripts {
    texts: Texts,
    pub(super) clock: Clock,
    checks: Vec<Composed>,
    /// Those that take their numbers, by the mode and the shape of the limits.
    given: HashMap<String, Rc<Script>>,
    pub(super) refund: Rc<Script>,
    pub(super) adjust: Rc<Script>,
    pub(super) charge: Rc<Script>,
    pub(super) reset: Rc<Script>,
}

/// A kind of question: its mode, whether it is one of several, and the units of a cost that is not
/// plain.
type Asked = (Mode, bool, Vec<Unit>);

/// The units of a cost that is not plain.
pub(super) fn units_of(cost: &Cost) -> Vec<Unit> {
    match cost.plain() {
        Some(_) => Vec::new(),
        None => cost.amounts().iter().map(|(unit, _)| *unit).collect(),
    }
}

/// The script of one question about these limits, or of several.
struct Composed {
    sets: Vec<LimitSet>,
    /// Their tags, with the edges of calendars.
    tags: Vec<String>,
    asked: Asked,
    script: Rc<Script>,
    /// The one that takes its numbers.
    given: Rc<Script>,
}

impl Composed {
    fn answers(&self, sets: &[&LimitSet], asked: &Asked) -> bool {
        self.asked == *asked
            && self.sets.iter().eq(sets.iter().copied())
            && self.tags == sets.iter().map(|set| compose::set_tag(set)).collect::<Vec<_>>()
    }
}

/// As many shapes are known from one history to the next.
const SHAPES: usize = 64;

impl Scripts {
    pub(crate) fn new(texts: Texts, clock: Clock) -> Self {
        let parts = &texts.parts;
        Self {
            checks: Vec::new(),
            given: HashMap::new(),
            refund: Rc::new(texts.script(compose::refund(clock, parts))),
            adjust: Rc::new(texts.script(compose::adjust(clock, parts))),
            charge: Rc::new(texts.script(compose::charge(clock, parts))),
            reset: Rc::new(texts.script(compose::reset(clock, parts))),
            texts,
            clock,
        }
    }

    /// The script of one such question, or of several.
    pub(crate) fn check(&mut self, sets: &[&LimitSet], mode: Mode, several: bool) -> Rc<Script> {
        self.check_of(sets, (mode, several, Vec::new()))
    }

    /// The same by the units of the cost.
    pub(super) fn check_of(&mut self, sets: &[&LimitSet], asked: Asked) -> Rc<Script> {
        Rc::clone(&self.composed(sets, asked).script)
    }

    /// The script of one such question that takes the numbers of its limits.
    pub(super) fn given(&mut self, sets: &[&LimitSet], mode: Mode, units: Vec<Unit>) -> Rc<Script> {
        Rc::clone(&self.composed(sets, (mode, false, units)).given)
    }

    fn composed(&mut self, sets: &[&LimitSet], asked: Asked) -> &Composed {
        let known = self.checks.iter().position(|known| known.answers(sets, &asked));
        let index = known.unwrap_or_else(|| {
            let composed = self.compose(sets, asked);
            self.checks.push(composed);
            self.checks.len() - 1
        });
        &self.checks[index]
    }

    fn compose(&mut self, sets: &[&LimitSet], asked: Asked) -> Composed {
        let (mode, several, units) = &asked;
        let (texts, mut check) = (&self.texts, Check::new(*mode));
        check.clock = self.clock;
        if !units.is_empty() {
            check.units.clone_from(units);
        }
        let script = match several {
            false => check.compose(sets, &texts.parts),
            true => check.compose_batch(sets, &texts.parts),
        };
        let shape = format!("{mode:?} {units:?} {}", compose::shape(sets));
        let given = self.given.entry(shape).or_insert_with(|| {
            let script = check.compose_with_number_args(sets, &texts.parts);
            Rc::new(texts.script(script.expect("all are in Lua")))
        });
        Composed {
            sets: sets.iter().copied().cloned().collect(),
            tags: sets.iter().map(|set| compose::set_tag(set)).collect(),
            asked,
            script: Rc::new(texts.script(script.expect("all are in Lua"))),
            given: Rc::clone(given),
        }
    }

    /// Forgets what other limits have no use for.
    pub(super) fn forget(&mut self) {
        self.checks.clear();
        if self.given.len() > SHAPES {
            self.given.clear();
        }
    }

    /// Those that other limits have a use for.
    pub(super) fn lasting(&self) -> impl Iterator<Item = &Script> {
        let rare = [&self.refund, &self.adjust, &self.charge, &self.reset];
        self.given.values().chain(rare).map(Rc::as_ref)
    }
}
