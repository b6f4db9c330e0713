//! How a program that is linked statically with glibc looks up names: by `/etc/hosts` and DNS, itself.
//!
//! glibc would load what `/etc/nsswitch.conf` names besides (such as systemd's resolver) from the machine. Those libraries need the
//! glibc of that machine, which is seldom of the version that is linked here. Programs that share the machine's glibc do what it says.

/// Keeps glibc from loading libraries. Call it before the first name is looked up, and before there are threads.
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
pub(crate) fn look_up_without_libraries() {
    use std::ffi::{c_char, c_int};

    unsafe extern "C" {
        /// Of glibc's `nss.h`: from now on the database is what the line says, and not what the file says.
        fn __nss_configure_lookup(database: *const c_char, line: *const c_char) -> c_int;
    }
    // SAFETY: both strings end in a zero and live for ever; no other thread is there that could look up a name.
    let refused = unsafe { __nss_configure_lookup(c"hosts".as_ptr(), c"files dns".as_ptr()) };
    debug_assert_eq!(refused, 0, "glibc has both services built in");
}

/// The machine's own C library may load what belongs to it.
#[cfg(not(all(target_env = "gnu", target_feature = "crt-static")))]
pub(crate) const fn look_up_without_libraries() {}
