//! Parses an experiment from its file.

use std::path::Path;

use toml::Spanned;

use super::case::cases_of;
use super::raw::RawExperiment;
use super::reader::{FileError, FileReader};
use super::units::{capacity, duration};
use super::wording::{in_words, key_before};
use super::workload::unread;
use crate::experiment::{Arrivals, Case, Experiment, START_US, Workload, bucket_of};

/// The most buckets of a series over time.
const MAX_BUCKETS: u64 = 100_000;

/// The most distinct clients of an experiment: each takes 16 bytes and more.
const MAX_ALL_CLIENTS: u64 = 50_000_000;

impl Experiment {
    /// Reads an experiment file, and the logs that it names relative to it.
    ///
    /// # Errors
    /// The file cannot be read, or the first error in it.
    pub fn load(path: &Path) -> Result<Self, FileError> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| FileError {
            file: file.clone(),
            line: None,
            what: format!("the file cannot be read: {error}"),
        })?;
        FileReader { file, text: &text, folder: path.parent().map(Path::to_path_buf) }.experiment()
    }

    /// Parses an experiment from text; paths of logs are relative to the working directory. `file`
    /// is its name in errors.
    ///
    /// # Errors
    /// The first error in the text.
    pub fn parse(file: &str, text: &str) -> Result<Self, FileError> {
        FileReader { file: file.to_owned(), text, folder: None }.experiment()
    }
}

impl FileReader<'_> {
    fn experiment(&self) -> Result<Experiment, FileError> {
        let raw = self.raw()?;
        let spanned = |text: &Option<Spanned<String>>| self.positive(text);
        let wanted_us = spanned(&raw.duration)?;
        let mut workloads = self.workloads(&raw, wanted_us)?;
        // A log defines its own start and duration.
        let spans = workloads.iter().filter_map(|workload| match &workload.arrivals {
            Arrivals::Log(traffic) => {
                let (first, last) = traffic.summary.first_last_us?;
                Some((first, last.saturating_add(workload.from_us)))
            }
            _ => None,
        });
        let (start_us, last_us) = spans
            .reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
            .unwrap_or((START_US, START_US));
        let duration_us = match wanted_us {
            Some(duration_us) => duration_us,
            None if last_us > start_us => last_us - start_us + 1,
            None => return Err(self.whole("`duration` is missing, e.g. duration = \"60s\"")),
        };
        self.bound(&mut workloads, &raw, duration_us)?;
        let mut notes: Vec<String> = workloads.iter().filter_map(unread).collect();
        let bucket_us = spanned(&raw.bucket)?.unwrap_or_else(|| bucket_of(duration_us));
        if duration_us / bucket_us > MAX_BUCKETS {
            let what = format!("these are more than {MAX_BUCKETS} buckets: make them longer");
            let span = raw.bucket.as_ref().map_or(0..0, Spanned::span);
            return Err(self.at(span, what));
        }
        let capacity = match &raw.capacity {
            None => None,
            Some(text) => {
                Some(capacity(text.get_ref()).map_err(|what| self.at(text.span(), what))?)
            }
        };
        let backend = match &raw.backend {
            None => None,
            Some(table) => {
                let read = table.get_ref().read(duration_us);
                let backend =
                    read.map_err(|(span, what)| self.at(span, format!("backend: {what}")))?;
                Some(backend)
            }
        };
        let cases = self.cases(&raw, workloads.len(), &mut notes)?;
        Ok(Experiment {
            operation_us: spanned(&raw.operation)?,
            name: raw.name.unwrap_or_else(|| self.file.clone()),
            seed: raw.seed.unwrap_or(1),
            start_us,
            duration_us,
            bucket_us,
            capacity,
            backend,
            workloads,
            cases,
            notes,
        })
    }

    /// The file as it is written, with at least a workload and a case.
    fn raw(&self) -> Result<RawExperiment, FileError> {
        let raw: RawExperiment = toml::from_str(self.text).map_err(|error| match error.span() {
            Some(span) => {
                let key = key_before(self.text.get(..span.start).unwrap_or_default());
                self.at(span, in_words(error.message(), key))
            }
            None => self.whole(in_words(error.message(), None)),
        })?;
        if *raw.version.get_ref() != 1 {
            return Err(self.at(raw.version.span(), "this is for version = 1"));
        }
        if raw.workload.is_empty() {
            let what = "there is no [[workload]]: set when requests come, e.g. arrivals = \
                        \"poisson\", rate = \"10/s\"";
            return Err(self.whole(what));
        }
        if raw.case.is_empty() {
            let what = "there is no [[case]]: set it, e.g. limits = [{ per = \
                        \"client\", limit = \"10/10s\" }], or queue = { bound = 10, work = \
                        \"100ms\" }";
            return Err(self.whole(what));
        }
        Ok(raw)
    }

    /// A duration that is not 0.
    fn positive(&self, text: &Option<Spanned<String>>) -> Result<Option<u64>, FileError> {
        let Some(text) = text else { return Ok(None) };
        match duration(text.get_ref()) {
            Ok(0) => Err(self.at(text.span(), "this is not a time: write 1us or more")),
            Ok(us) => Ok(Some(us)),
            Err(what) => Err(self.at(text.span(), what)),
        }
    }

    fn workloads(
        &self,
        raw: &RawExperiment,
        duration_us: Option<u64>,
    ) -> Result<Vec<Workload>, FileError> {
        let mut workloads = Vec::with_capacity(raw.workload.len());
        for (place, table) in raw.workload.iter().enumerate() {
            let read = self.workload(table.get_ref(), place, duration_us);
            let workload = read.map_err(|what| {
                let name = table.get_ref().name.as_deref().unwrap_or("workload");
                self.at(table.span(), format!("{name}: {what}"))
            })?;
            workloads.push(workload);
        }
        Ok(workloads)
    }

    /// Ends every workload with the experiment, and checks how many clients there are.
    fn bound(
        &self,
        workloads: &mut [Workload],
        raw: &RawExperiment,
        duration_us: u64,
    ) -> Result<(), FileError> {
        for (workload, table) in workloads.iter_mut().zip(&raw.workload) {
            workload.until_us = workload.until_us.min(duration_us);
            if workload.from_us >= workload.until_us {
                let what = format!("{}: `from` is not before the end", workload.name);
                return Err(self.at(table.span(), what));
            }
        }
        let clients = workloads.iter().map(Workload::all_clients).fold(0, u64::saturating_add);
        if clients > MAX_ALL_CLIENTS {
            let what = format!(
                "there are {clients} different clients in all, and at most {MAX_ALL_CLIENTS}: a \
                 gang with new = true brings others each time"
            );
            return Err(self.whole(what));
        }
        Ok(())
    }

    fn cases(
        &self,
        raw: &RawExperiment,
        workloads: usize,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Case>, FileError> {
        let has_backend = raw.backend.is_some();
        let mut cases = Vec::new();
        for table in &raw.case {
            let all: Vec<usize> = (0..workloads).collect();
            self.can_have(table, has_backend)?;
            if let Some(queue) = &table.get_ref().queue {
                let (name, queue) = self.queue(table, queue)?;
                let (parts, queue, workloads) = (Vec::new(), Some(queue), all);
                cases.push(Case { name, parts, queue, nodes: None, workloads });
                continue;
            }
            let (of, more) = cases_of(table.get_ref(), has_backend)
                .map_err(|what| self.at(table.span(), what))?;
            notes.extend(more);
            for (name, parts) in of {
                for (name, nodes) in self.nodes(table, &name, &parts)? {
                    let (parts, workloads) = (parts.clone(), all.clone());
                    cases.push(Case { name, parts, queue: None, nodes, workloads });
                }
            }
        }
        Ok(cases)
    }
}
