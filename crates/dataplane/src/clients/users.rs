//! Who may log in, how that is proved, and what each may do.
//!
//! [`Users`] owns what the proxy's configuration says of users; it never changes, a reload brings another one. It is asked who a name and a
//! password are, or who a certificate is, and answers with a [`User`]. A password is only compared: nothing hands it out, and no text has it.
//! For each name as many are compared, so that the time of an answer does not tell which names there are.

use crate::wire::secret::Secret;
use std::{collections::HashMap, iter, sync::Arc};

/// All users.
#[derive(Debug, Default)]
pub struct Users {
    by_name: HashMap<Box<[u8]>, Arc<User>>,
    by_certificate: HashMap<String, Arc<User>>,
    /// How many passwords are compared for a name: as many as any user has.
    compared_max: usize,
}

/// One user.
#[derive(Debug)]
pub struct User {
    name: Box<[u8]>,
    /// Any of them will do: a password is replaced by giving both for a while.
    passwords: Vec<Secret>,
    certificate: Option<String>,
    is_read_only: bool,
    /// The pools whose keys it may use; `None`: all.
    pools: Option<Box<[String]>>,
}

impl User {
    /// Somebody who may do everything and cannot prove who he is.
    pub fn new(name: &[u8]) -> Self {
        Self { name: name.into(), passwords: Vec::new(), certificate: None, is_read_only: false, pools: None }
    }

    /// This is a password, beside those that there are.
    pub fn add_password(&mut self, password: Secret) {
        self.passwords.push(password);
    }

    /// Whoever shows a certificate with this name is this user.
    pub fn set_certificate(&mut self, name: &str) {
        self.certificate = Some(name.to_owned());
    }

    /// It may change nothing.
    pub fn set_read_only(&mut self) {
        self.is_read_only = true;
    }

    /// It may use keys of these pools alone.
    pub fn set_pools(&mut self, pools: Vec<String>) {
        self.pools = Some(pools.into());
    }

    /// What it is called.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Whether it can prove who it is.
    pub fn can_log_in(&self) -> bool {
        !self.passwords.is_empty() || self.certificate.is_some()
    }

    /// Whether it may change nothing.
    pub(crate) fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Whether it may use keys of this pool.
    pub(crate) fn may_use(&self, pool: &str) -> bool {
        self.pools.as_ref().is_none_or(|pools| pools.iter().any(|it| it == pool))
    }

    /// Whether all pools are for it.
    pub(crate) fn may_use_all(&self) -> bool {
        self.pools.is_none()
    }

    /// Whether each of its requests is looked at.
    pub(crate) fn is_limited(&self) -> bool {
        self.is_read_only || self.pools.is_some()
    }
}

impl Users {
    /// These. Of several with the same name, or certificate, the last one counts.
    pub fn new(users: impl IntoIterator<Item = User>) -> Self {
        let mut all = Self { compared_max: 1, ..Self::default() };
        for user in users.into_iter().map(Arc::new) {
            all.compared_max = all.compared_max.max(user.passwords.len());
            if let Some(certificate) = &user.certificate {
                all.by_certificate.insert(certificate.clone(), Arc::clone(&user));
            }
            all.by_name.insert(user.name.clone(), user);
        }
        all
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.by_name.len()
    }

    /// Who it is, if the password is his.
    pub(crate) fn with_password(&self, name: &[u8], password: &[u8]) -> Option<&Arc<User>> {
        let (user, nobodys) = (self.by_name.get(name), Secret::new(b""));
        let compared = self.compared(user, &nobodys);
        let is_any = compared.fold(false, |is_any, (secret, is_his)| is_any | (secret.is(password) & is_his));
        user.filter(|_| is_any)
    }

    /// What is compared for a user, or for a name that is nobody's: his passwords, and one that does not count as often as they are fewer than
    /// others'. Each comes with whether it is his.
    fn compared<'a>(
        &self,
        user: Option<&'a Arc<User>>,
        nobodys: &'a Secret,
    ) -> impl Iterator<Item = (&'a Secret, bool)> + use<'a> {
        let his = user.into_iter().flat_map(|user| &user.passwords).map(|secret| (secret, true));
        his.chain(iter::repeat((nobodys, false))).take(self.compared_max)
    }

    /// Whether any certificate is somebody's.
    pub(crate) fn have_certificates(&self) -> bool {
        !self.by_certificate.is_empty()
    }

    /// The first of these names of a certificate that is somebody's.
    pub(crate) fn with_certificate(&self, names: &[String]) -> Option<&Arc<User>> {
        names.iter().find_map(|name| self.by_certificate.get(name))
    }

    /// Who is called so.
    pub(crate) fn named(&self, name: &[u8]) -> Option<&Arc<User>> {
        self.by_name.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, passwords: &[&str]) -> User {
        let mut user = User::new(name.as_bytes());
        passwords.iter().for_each(|word| user.add_password(Secret::new(word.as_bytes())));
        user
    }

    fn users() -> Users {
        let mut shown = user("shown", &[]);
        shown.set_certificate("shown.example");
        Users::new([user("one", &["first", "second"]), user("other", &["third"]), shown])
    }

    #[test]
    fn a_password_is_its_users_alone_and_any_of_his_will_do() {
        let users = users();
        let who = |name: &str, password: &str| {
            let found = users.with_password(name.as_bytes(), password.as_bytes());
            found.map(|user| String::from_utf8_lossy(user.name()).into_owned())
        };
        assert_eq!(who("one", "first").as_deref(), Some("one"));
        assert_eq!(who("one", "second").as_deref(), Some("one"));
        assert_eq!(who("other", "third").as_deref(), Some("other"));
        for (name, password) in [
            ("one", "third"),
            ("one", "firs"),
            ("one", "first\0"),
            ("one", ""),
            ("nobody", ""),
            ("nobody", "first"),
            ("", ""),
            // It has no password, so none is right.
            ("shown", ""),
        ] {
            assert_eq!(who(name, password), None, "{name:?} {password:?}");
        }
    }

    #[test]
    fn as_many_passwords_are_compared_for_every_name() {
        let (users, nobodys) = (users(), Secret::new(b""));
        let compared = ["one", "other", "shown", "nobody"]
            .map(|name| users.compared(users.named(name.as_bytes()), &nobodys).count());
        assert_eq!(compared, [2; 4]);
    }

    #[test]
    fn a_certificate_is_somebodys_by_one_of_its_names() {
        let users = users();
        let who = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
            users.with_certificate(&names).is_some()
        };
        assert!(who(&["x", "shown.example"]) && users.have_certificates());
        assert!(!who(&[]) && !who(&["shown"]) && !who(&["SHOWN.example"]));
    }

    #[test]
    fn no_text_has_a_password() {
        let text = format!("{:?}", users());
        assert!(text.contains("Secret") && !text.contains("first") && !text.contains("third"), "{text}");
        // As numbers it would be there, too.
        assert!(!text.contains(&format!("{:?}", b"first")), "{text}");
    }
}
