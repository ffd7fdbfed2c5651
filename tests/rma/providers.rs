//! Which provider serves the node where none is named.

use super::*;

/// A libfabric that is not there.
pub const NO_LIBRARY: &str = "/nonexistent/libfabric.so.1";

/// The module for the node, on all ranks.
pub fn node_by_default(boot: Arc<dyn Boot>) -> Result {
    serves(boot, "node")
}

/// Where one of them may not be attached to, none takes it, and windows are put to as ever.
pub fn library_where_one_is_closed(boot: Arc<dyn Boot>) -> Result {
    if boot.rank() == 1 {
        // SAFETY: numbers.
        let closed = unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
        ensure!(closed == 0, "prctl: {}", std::io::Error::last_os_error());
    }
    serves(boot, "shm")
}

/// Where one of them was told of another they all go by libraries, if not by one.
pub fn library_where_one_was_told(boot: Arc<dyn Boot>) -> Result {
    let name = (boot.rank() == 1).then(|| "shm".to_owned());
    let context = device::open_ofi(boot, &device::Options::default().provider(name));
    goes_by(&context.map_err(text)?, "shm")
}

/// A library that was asked for and is not there is an error, not another netmod, nor the node's
/// module, which needs none.
pub fn no_library(boot: Arc<dyn Boot>) -> Result {
    match device::open(boot, &device::Options::default()) {
        Ok(_) => Err("a device opened without the library that was asked for".into()),
        Err(e) => {
            let e = e.to_string();
            let named = [format!("RANKWAY_LIBFABRIC is '{NO_LIBRARY}': "), "No such file".into()];
            ensure!(named.iter().all(|part| e.contains(part)), "{e}");
            Ok(())
        }
    }
}

/// Of a netmod that does not ask for it, it is none.
pub fn another_library(boot: Arc<dyn Boot>) -> Result {
    device::open_by_name(boot, Some("node"), &device::Options::default()).map(drop).map_err(text)
}

fn serves(boot: Arc<dyn Boot>, name: &str) -> Result {
    goes_by(&<Ofi as Opens>::open(boot)?, name)
}

fn goes_by(context: &Rc<Context<Ofi>>, name: &str) -> Result {
    let local = context.device().provider(Transport::Local);
    let taken = local.map(|netmod| netmod.caps().provider.clone());
    ensure!(taken.as_deref() == Some(name), "{taken:?} serves the node, and not {name}");
    let world = Communicator::world(context);
    let (me, n) = (world.rank(), world.size());
    let mut w = make::<CREATED, _>(&world, 8 * n as usize, 8).map_err(text)?;
    w.fence().map_err(text)?;
    for to in 0..n {
        w.put(&u64::from(me * 100 + to).to_le_bytes(), to, me as usize).map_err(text)?;
    }
    w.fence().map_err(text)?;
    let want: Vec<u8> = (0..n).flat_map(|r| u64::from(r * 100 + me).to_le_bytes()).collect();
    same("by default", &own(&w)?, &want)?;
    w.free().map_err(text)
}
