//! Tables, by RFC 4180: a line of heads, lines that end with CR and LF.
//!
//! `identity` names an object on all its members and is the key between the tables.

use super::{Export, Survey, called};
use crate::output::quoted;
use crate::target::Target;
use crate::trace::site::Sites;
use rankway::rankmap::Process;
use rankway::track::{Defined, DefinitionFlags, EventFlags, Group, NO_PEER, ProcessTrace, Unified};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};

const EVENTS: &str = "job,rank,thread,call,class,start_ns,end_ns,object,identity,local_rank,peer,peer_rank,tag,\
                      bytes,failed,cancelled";
const DEFINITIONS: &str = "job,rank,object,identity,kind,made_by,local_rank,size,parent,\
                           parent_identity,site,function,name,made_ns,freed_ns,internal";
const COMMUNICATORS: &str = "identity,kind,made_by,parent_identity,of_each,size,remote_size,seen,\
                             made_ns,last_made_ns,freed,last_freed_ns,name,model,map_bytes";
const PROCESSES: &str = "job,rank,size,pid,host,program,mpi,events,dropped,lost,ended";

/// A table as it is written.
struct Lines {
    file: File,
    text: String,
    count: u64,
}

impl Lines {
    fn create(target: &Target, name: &str, heads: &str) -> Result<Lines, String> {
        let file = File::create_new(target.path().join(name)).map_err(|e| target.cannot(&e))?;
        Ok(Lines { file, text: format!("{heads}\r\n"), count: 0 })
    }

    /// Ends a line.
    fn end(&mut self) -> io::Result<()> {
        self.text.push_str("\r\n");
        self.count += 1;
        if self.text.len() >= 1 << 20 { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all(self.text.as_bytes())?;
        self.text.clear();
        Ok(())
    }
}

pub(super) struct Csv {
    target: Target,
    events: Lines,
    definitions: Lines,
    communicators: Lines,
    processes: Lines,
    sites: Sites,
}

/// Adds fields to a line; text is quoted where it must be.
macro_rules! fields {
    ($lines:expr, $($format:literal $(, $value:expr)*);+) => {{
        let text = &mut $lines.text;
        // (Writing into a String does not fail.)
        $(let _ = write!(text, $format $(, $value)*);)+
    }};
}

impl Csv {
    pub(super) fn create(target: Target) -> Result<Csv, String> {
        Ok(Csv {
            events: Lines::create(&target, "events.csv", EVENTS)?,
            definitions: Lines::create(&target, "definitions.csv", DEFINITIONS)?,
            communicators: Lines::create(&target, "communicators.csv", COMMUNICATORS)?,
            processes: Lines::create(&target, "processes.csv", PROCESSES)?,
            sites: Sites::default(),
            target,
        })
    }

    fn write(&mut self, survey: &Survey, trace: &ProcessTrace) -> io::Result<()> {
        let header = &trace.header;
        let fact = |key| quoted(trace.facts.get(key).map_or("", String::as_str));
        let events: usize = trace.events.values().map(Vec::len).sum();
        let (job, rank) = (header.job, header.rank);
        fields!(self.processes,
            "{job:x},{rank},{},{},", header.size, header.pid;
            "{},{},{},", fact("host"), fact("program"), fact("mpi");
            "{events},{},{},{}", trace.dropped, trace.lost, trace.ended);
        self.processes.end()?;

        let known: HashMap<u32, _> =
            trace.definitions.iter().map(|one| (one.id, &one.definition)).collect();
        for defined in &trace.definitions {
            let definition = &defined.definition;
            let made_by = definition.constructor;
            fields!(self.definitions,
                "{job:x},{rank},{},{:016x},", defined.id, definition.identity.0;
                "{},{},", made_by.object().name(), quoted(made_by.name());
                "{},{},{},", definition.rank, definition.size, definition.parent);
            if let Some(parent) = known.get(&definition.parent) {
                fields!(self.definitions, "{:016x}", parent.identity.0);
            }
            let place = self.sites.of(trace, definition.site);
            let (site, function) =
                place.map_or((String::new(), None), |place| (place.text, place.function));
            let name = trace.names.get(&defined.id).map_or("", String::as_str);
            fields!(self.definitions,
                ",{},{},", quoted(&site), quoted(&function.unwrap_or_default());
                "{},{},", quoted(name), trace.nanos(defined.made));
            if let Some(freed) = defined.freed {
                fields!(self.definitions, "{}", trace.nanos(freed));
            }
            fields!(self.definitions, ",{}", definition.flags.has(DefinitionFlags::INTERNAL));
            self.definitions.end()?;
        }

        let peers = Peers::new(&survey.unified, trace);
        for (thread, events) in &trace.events {
            for event in events {
                let Some(kind) = event.kind() else { continue };
                let of = known.get(&event.comm);
                let call = called(kind, of.map(|one| one.constructor));
                let call = call.map_or(kind.name(), |constructor| constructor.name());
                fields!(self.events,
                    "{job:x},{rank},{thread},{},{},", quoted(call), kind.class().name();
                    "{},{},", trace.nanos(event.start), trace.nanos(event.end()));
                match of {
                    Some(of) => {
                        fields!(self.events, "{},{:016x},{},", event.comm, of.identity.0, of.rank);
                    }
                    None => self.events.text.push_str(",,,"),
                }
                if event.peer != NO_PEER {
                    fields!(self.events, "{}", event.peer);
                }
                self.events.text.push(',');
                if let Some(process) = peers.of(event.comm, event.peer) {
                    self.events.text.push_str(&survey.label(process.pg as usize, process.lpid));
                }
                let flags = event.flags();
                fields!(
                    self.events,
                    ",{},{},{},{}",
                    event.tag,
                    event.bytes(),
                    flags.has(EventFlags::FAILED),
                    flags.has(EventFlags::CANCELLED)
                );
                self.events.end()?;
            }
        }
        Ok(())
    }

    /// Communicators, windows and files as all of their members know them; and what each
    /// process has alone, those alike together.
    fn unified(&mut self, unified: &Unified) -> io::Result<()> {
        for object in &unified.objects {
            let made_by = object.constructor;
            fields!(self.communicators,
                "{:016x},{},", object.identity.0, made_by.object().name();
                "{},", quoted(made_by.name()));
            if let Some(parent) = object.parent {
                fields!(self.communicators, "{:016x}", unified.objects[parent].identity.0);
            }
            let [size, remote] = object.sizes;
            fields!(self.communicators,
                ",{},{size},{remote},{},", object.family, object.seen;
                "{},{},{},", object.made.0, object.made.1, object.freed);
            if let Some(last) = object.last_freed {
                fields!(self.communicators, "{last}");
            }
            let group = object.groups[0].map(|group| unified.groups[group].map());
            let model = group.map_or_else(String::new, |map| map.model().to_string());
            fields!(
                self.communicators,
                ",{},{model},",
                quoted(object.name.as_deref().unwrap_or_default())
            );
            if let Some(map) = group {
                fields!(self.communicators, "{}", map.bytes());
            }
            self.communicators.end()?;
        }
        Ok(())
    }
}

/// Who the ranks are that calls of a process name, by its numbers.
struct Peers<'a>(HashMap<u32, &'a Group>);

impl<'a> Peers<'a> {
    fn new(unified: &'a Unified, trace: &ProcessTrace) -> Peers<'a> {
        let (job, rank) = (trace.header.job, trace.header.rank);
        let group = |one: &Defined| {
            let object = &unified.objects[unified.object_of(job, rank, one.id)?];
            Some(&unified.groups[object.peers(one.definition.flags)?])
        };
        let all = trace.definitions.iter();
        Peers(all.filter_map(|one| Some((one.id, group(one)?))).collect())
    }

    fn of(&self, id: u32, peer: u32) -> Option<Process> {
        self.0.get(&id)?.get(peer)
    }
}

impl Export for Csv {
    fn process(&mut self, survey: &Survey, _: usize, trace: &ProcessTrace) -> Result<(), String> {
        self.write(survey, trace).map_err(|e| self.target.cannot(&e))
    }

    fn finish(mut self: Box<Self>, survey: &Survey) -> Result<(u64, u64), String> {
        self.unified(&survey.unified).map_err(|e| self.target.cannot(&e))?;
        let Csv { target, events, definitions, communicators, processes, .. } = *self;
        let mut records = 0;
        for mut table in [events, definitions, communicators, processes] {
            table.flush().map_err(|e| target.cannot(&e))?;
            records += table.count;
        }
        Ok((records, target.put()?.unwrap_or(0)))
    }
}
