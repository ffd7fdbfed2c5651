//! The same counts of what `include/rankway.h` has inline, as a C compiler
//! made it: functions of a shared object (`capi/count/count.c`).

use super::{MODELS, RANKS, UNCHECKED_LIMIT};
use crate::fixture::Fixture;
use crate::output::{Table, maybe};
use crate::shared_object::SharedObject;
use rankway::av::Entry;
use rankway::netmod::ofi::Ofi;
use rankway::rankmap::Lookup;
use rankway::rma::Access;
use rankway_cli::observe::step::{self, Limits, Region, Stop, Trace};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};
use std::path::Path;

/// The most instructions a translation may take through an affine map.
const AFFINE_LIMIT: u64 = 7;

/// The maps whose put path is inline.
const AFFINE: [&str; 3] = ["direct", "offset", "stride"];

type Translate = unsafe extern "C" fn(&Lookup, usize) -> u64;
type Put = unsafe extern "C" fn(*const Access<Ofi>, *const u8, usize, u32, usize) -> isize;

/// The functions of `count.c`.
struct Functions {
    translate: Translate,
    put: Put,
    compiler: String,
}

impl Functions {
    fn open(path: &Path) -> Result<Functions, String> {
        let library = SharedObject::open(path, "make count-c makes it")?;
        let find = |name| library.find(name);
        let (translate, put) = (find(c"rankway_c_entry")?, find(c"rankway_c_put")?);
        let compiler = find(c"rankway_c_compiler")?.cast::<c_char>();
        // SAFETY: the types that `count.c` gives them, whose structures the C
        // interface compares with the library's.
        unsafe {
            Ok(Functions {
                translate: std::mem::transmute::<*mut c_void, Translate>(translate),
                put: std::mem::transmute::<*mut c_void, Put>(put),
                compiler: CStr::from_ptr(compiler).to_string_lossy().into_owned(),
            })
        }
    }
}

#[derive(Serialize)]
pub(super) struct Report {
    translation: BTreeMap<&'static str, u64>,
    put_unchecked: BTreeMap<&'static str, u64>,
    /// The compiler of the inline functions.
    compiler: String,
    /// The compiler of the bodies that other maps call.
    bodies_compiler: &'static str,
    #[serde(skip)]
    pub(super) traces: BTreeMap<&'static str, (Trace, Trace)>,
}

pub(super) fn count(path: &Path) -> Result<Report, String> {
    let functions = Functions::open(path)?;
    let (translate, put) = (functions.translate, functions.put);
    let traces = step::session(Limits::default(), |marker| {
        let (fixture, provider) = Fixture::to_count(RANKS)?;
        let buf = 7_u64.to_ne_bytes();
        for model in MODELS {
            let access = fixture.access(model)?;
            let map = fixture.map(model)?;
            // SAFETY: the directory lives as long as the device, the map as
            // long as this turn.
            let lookup = unsafe { Lookup::new(&map, fixture.context.av().directory()) };
            marker.count(Region::function(translate as *const () as usize));
            // SAFETY: a rank of the map.
            if Entry::from_bits(unsafe { translate(&lookup, 17) }).is_empty() {
                return Err(format!("{model}: rank 17 was not inserted"));
            }
            let start = put as *const () as usize;
            marker.count(Region { start, stop: Stop::At(provider), nth: 1 });
            // SAFETY: in the window, in an epoch; flushed before the buffer goes.
            if unsafe { put(&raw const access, buf.as_ptr(), 8, 17, 3) } != 0 {
                return Err(format!("{model}: the put failed"));
            }
            access.flush_all().map_err(|e| e.to_string())?;
        }
        Ok(())
    });
    let mut traces = traces.map_err(|e| e.to_string())?.into_iter();
    let mut all = BTreeMap::new();
    for model in MODELS {
        let mut next = || traces.next().ok_or("a count is missing");
        all.insert(model, (next()?, next()?));
    }
    let counts = |pick: fn(&(Trace, Trace)) -> &Trace| {
        all.iter().map(|(model, both)| (*model, pick(both).count as u64)).collect()
    };
    Ok(Report {
        translation: counts(|(translation, _)| translation),
        put_unchecked: counts(|(_, put)| put),
        compiler: functions.compiler,
        bodies_compiler: env!("RANKWAY_RUSTC"),
        traces: all,
    })
}

impl Report {
    /// What is above its limit, of the maps whose put path is inline.
    pub(super) fn above(&self) -> Vec<String> {
        let mut all = Vec::new();
        for model in AFFINE {
            for (what, count, limit) in [
                ("translation", self.translation[model], AFFINE_LIMIT),
                ("unchecked put", self.put_unchecked[model], UNCHECKED_LIMIT),
            ] {
                if count > limit {
                    all.push(format!("{what} of {model} in C takes {count}, above {limit}"));
                }
            }
        }
        all
    }

    pub(super) fn table(&self) -> Table {
        let mut table = Table::new(&["model", "rank to entry", "limit", "put\nunchecked", "limit"]);
        table.title(format!("Instructions of include/rankway.h, compiled by {}", self.compiler));
        table
            .title("Puts of 8 bytes: from the call to the entry of the provider's fi_inject_write");
        for model in MODELS {
            let affine = AFFINE.contains(&model);
            table.row(&[
                model.to_owned(),
                self.translation[model].to_string(),
                maybe(affine.then_some(AFFINE_LIMIT)),
                self.put_unchecked[model].to_string(),
                maybe(affine.then_some(UNCHECKED_LIMIT)),
            ]);
        }
        table
    }
}
