//! Real-time priority, so that a busy machine does not hold the device up.

use nix::errno::Errno;

/// Middle of the range: above all ordinary threads, below what the kernel itself runs at 99.
const PRIORITY: libc::c_int = 50;

/// Asks for real-time priority for this thread, and says what came of it.
pub(crate) fn take_real_time() -> String {
    let parameters = libc::sched_param { sched_priority: PRIORITY };
    // SAFETY: 0 is the calling thread, and `parameters` is valid for reading.
    let status = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    match Errno::result(status) {
        Ok(_) => format!("SCHED_FIFO {PRIORITY}"),
        Err(error) => format!("ordinary: SCHED_FIFO was refused ({})", error.desc()),
    }
}
