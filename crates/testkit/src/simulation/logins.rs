//! In some worlds clients log in: all of them, by what they have shown, before they ask anything.
//!
//! So nothing that they read may differ from what they read in the other worlds. In half of these their user may use all pools by name, and
//! each of their requests is judged.

use std::sync::Arc;

use weir_dataplane::{Dataplane, Login, SessionId, User, Users};
use weir_timing::Instant;

use super::scenario::Scenario;

const CERTIFICATE: &str = "simulated";

/// The names of all pools that tables have.
const POOLS: [&str; 4] = ["main", "pool-0", "pool-1", "pool-2"];

/// Who may log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Logins {
    /// Nobody has to.
    None,
    /// Whoever has may do everything.
    Free,
    /// The same, which is looked at with each request.
    Judged,
}

impl Logins {
    /// Those of a world. It takes no random number, so that worlds are what they were.
    pub(super) fn of(scenario: &Scenario) -> Self {
        match scenario.config.seed % 3 {
            0 => Self::None,
            1 => Self::Free,
            _ => Self::Judged,
        }
    }

    /// The dataplane learns who may log in, again after each reload.
    pub(super) fn begin(self, dataplane: &mut Dataplane) {
        let mut user = User::new(b"user");
        user.set_certificate(CERTIFICATE);
        if self == Self::Judged {
            user.set_pools(POOLS.map(str::to_owned).into());
        }
        let users = (self != Self::None).then(|| Arc::new(Users::new([user])));
        dataplane.handle_logins(users.as_ref(), None);
    }
}

/// A client comes, and shows who it is.
pub(super) fn accept(dataplane: &mut Dataplane, now: Instant) -> Option<SessionId> {
    let session = dataplane.handle_accept(Login::Wanted, now)?;
    dataplane.handle_certificate(session, || vec!["another".to_owned(), CERTIFICATE.to_owned()]);
    Some(session)
}
