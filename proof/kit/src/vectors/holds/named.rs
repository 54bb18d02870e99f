//! The oracle's answers to lines about holds that their callers name.

use super::{HoldAsk, LineAnswer, Run, Said, decided};
use crate::oracle::{Ended, Kind, NameSays};

impl Run {
    /// The oracle's name for one that a caller gave.
    fn caller(&mut self, name: &str) -> u64 {
        let place = self.callers.iter().position(|other| other == name).unwrap_or_else(|| {
            self.callers.push(name.to_owned());
            self.callers.len() - 1
        });
        place as u64
    }

    pub(super) fn ask_named(&mut self, at_us: u64, asked: &HoldAsk) -> Result<LineAnswer, String> {
        let (name, kind, cost, ttl_us) = match asked {
            HoldAsk::Reserve { name, cost, ttl_us, charging: true } => {
                (name, Kind::Charging, *cost, *ttl_us)
            }
            HoldAsk::Reserve { name, cost, ttl_us, .. } => (name, Kind::Reserve, *cost, *ttl_us),
            HoldAsk::Acquire { name, slots } => {
                let ttl_us = self.count.hold_us.ok_or("these limits have no slots")?;
                (name, Kind::Acquire, *slots, ttl_us)
            }
            _ => return Err("only what is reserved or acquired is named".to_owned()),
        };
        let caller = self.caller(name);
        match self.oracle.name_says(at_us, caller, (kind, cost, ttl_us)) {
            NameSays::Differs => Ok(LineAnswer::only(Said::Differs)),
            NameSays::Repeated => Ok(LineAnswer::only(Said::TooOften)),
            NameSays::Over => Ok(LineAnswer::only(Said::Over)),
            NameSays::Again { end_us, .. } => {
                self.change(at_us)?;
                let fields = self.oracle.answer_again(at_us, caller, &self.no_guess());
                let asked = (at_us, (cost, Some(kind)));
                Ok(decided(&self.oracle, asked, Some(Said::Again(end_us)), &fields))
            }
            NameSays::New => {
                let hold = self.names.len() as u64;
                let until = Said::Until(at_us + ttl_us);
                let answer = self.ask(at_us, cost, Some((name, kind, ttl_us)), until)?;
                if matches!(answer.said, Said::Until(_)) {
                    self.oracle.give_name(caller, hold, (kind, cost, ttl_us));
                }
                Ok(answer)
            }
        }
    }

    pub(super) fn settle_by_name(
        &mut self,
        at_us: u64,
        asked: &HoldAsk,
    ) -> Result<LineAnswer, String> {
        let (name, units) = match asked {
            HoldAsk::Commit(name, units) => (name, *units),
            HoldAsk::Cancel(name) | HoldAsk::Release(name) => (name, 0),
            HoldAsk::Renew(name, ttl_us) => {
                let ttl_us = ttl_us.or(self.count.hold_us).ok_or("say how long it lasts")?;
                let caller = self.caller(name);
                let hold = self.oracle.hold_named(at_us, caller).map(|(hold, _)| hold);
                let end_us = self.oracle.renew(at_us, hold.unwrap_or(u64::MAX), ttl_us);
                return Ok(LineAnswer::only(end_us.map_or(Said::NotOpen, Said::Until)));
            }
            _ => return Err("only what settles or renews is by name".to_owned()),
        };
        let caller = self.caller(name);
        let ended = match units {
            0 => self.oracle.release_named(at_us, caller, self.count.hold_us),
            _ => self.oracle.settle_named(at_us, caller, units),
        };
        Ok(self.ended(ended, units, matches!(asked, HoldAsk::Release(_))))
    }

    pub(super) fn give_back(&mut self, at_us: u64, name: &str, answer: u64) -> LineAnswer {
        let caller = self.caller(name);
        let ended = self.oracle.give_back(at_us, caller, answer);
        self.ended(ended, 0, true)
    }

    fn ended(&self, ended: Ended, units: u64, is_release: bool) -> LineAnswer {
        match ended {
            Ended::Charged(_) if is_release => LineAnswer::only(Said::Released),
            Ended::Charged(charged) => self.charged(units, &charged),
            Ended::Already(units) => LineAnswer::only(Said::Already(units)),
            Ended::Early => LineAnswer::only(Said::Early),
            Ended::NotOpen => LineAnswer::only(Said::NotOpen),
        }
    }
}
