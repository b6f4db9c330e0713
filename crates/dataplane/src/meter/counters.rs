//! Counts of everything that happens, and of everything that is refused.

use crate::Fault;
use weir_protocol::{Refusal, door::Foreign};
use weir_timing::Operation;

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Counters of one dataplane. They only grow.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl Counters {
            /// Name, meaning and value of every counter, in a fixed order.
            pub fn entries(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [$((stringify!($name), concat!($($doc),+).trim_ascii(), self.$name),)+].into_iter()
            }

            /// Adds the counts of another dataplane.
            pub fn merge(&mut self, other: &Self) {
                $(self.$name += other.$name;)+
            }

            /// What was counted between `earlier` and here.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($name: self.$name.saturating_sub(earlier.$name),)+ }
            }
        }
    };
}

counters! {
    /// Client connections that were accepted.
    sessions_accepted,
    /// Client connections that were refused, because there were too many.
    sessions_refused,
    /// Of these, those for which the process had no descriptor.
    sessions_refused_descriptors,
    /// Client connections that were closed because they said nothing for too long (`--idle-timeout`).
    sessions_closed_idle,
    /// Client connections that were closed because they had not logged in in time (`--auth-timeout`), or sent much before that and read nothing.
    sessions_closed_login,
    /// Client connections that were closed because a reload has taken their user away.
    sessions_closed_revoked,
    /// Client connections that were closed because a request took too long to arrive (`--request-timeout`).
    sessions_closed_slow,
    /// Client connections that were closed because they took nothing of their replies for too long (`--client-timeout`).
    sessions_closed_unread,
    /// Client connections that were closed because they took nothing of their replies while all buffers held too much (`--buffer-limit`).
    sessions_closed_memory,
    /// Client connections that were ended because their first bytes were of memcached's binary protocol.
    sessions_refused_binary,
    /// Client connections that were ended because their first bytes were of TLS.
    sessions_refused_tls,
    /// Client connections that were ended because their first bytes were of HTTP.
    sessions_refused_http,
    /// Client connections that were ended at a port that speaks TLS, because their first bytes were not of TLS.
    sessions_refused_plain,
    /// TLS handshakes of clients that were done.
    tls_handshakes,
    /// Of these, those that resumed an earlier session, which costs less.
    tls_handshakes_resumed,
    /// TLS handshakes of clients that failed, for whatever reason.
    tls_handshakes_failed,
    /// Of these, those of clients without a certificate, or with one that is not trusted (`--tls-client-ca`).
    tls_handshakes_failed_certificate,
    /// Of these, those that the client broke off with an alert, as those do who do not trust the proxy's certificate.
    tls_handshakes_failed_alert,
    /// Client connections that were closed because their TLS handshake took too long (`--tls-handshake-timeout`).
    tls_handshakes_timed_out,
    /// Client connections that were closed because too many TLS handshakes were under way (`--tls-handshakes`), of all clients or of its address.
    tls_handshakes_refused,
    /// Times that a step of a TLS handshake had to wait for the next turn, so that others were served before.
    tls_handshakes_put_off,
    /// Client connections that were closed because what came over TLS was no record of it.
    tls_broken,
    /// Client connections that ended without saying so in TLS, as many programs do.
    tls_cut,
    /// Connections to servers that failed because no TLS could be spoken through them (`--server-tls`).
    tls_servers_failed,
    /// Client connections that ended.
    sessions_closed,
    /// Times that a session's bytes were left in the kernel, because too many of its requests were in service or too many bytes of replies waited.
    sessions_paused,
    /// Complete requests of clients, refused ones included.
    requests,
    /// Requests that were answered with an error without asking a server: the client's own mistakes.
    requests_refused,
    /// Of these, requests of clients that had not logged in, where they must (`--auth-file`).
    requests_refused_unauthenticated,
    /// Of these, requests that may change items, by users who may only read.
    requests_refused_read_only,
    /// Of these, requests for keys of pools that are not for their user.
    requests_refused_pool,
    /// Clients that have logged in.
    logins,
    /// Of these, those whose certificate said who they are.
    logins_by_certificate,
    /// Logins with a wrong name or password.
    logins_failed,
    /// Writes that another loop was asked to carry out, because it owns their key.
    requests_mailed,
    /// Writes that were not, because too many, or too many bytes, were under way to that loop.
    mail_refusals_full,
    /// Times that a request waited for an earlier one of its session that another loop carries out, or before one is sent to another loop.
    session_order_waits,
    /// Requests of more than 64 KiB that were refused, as too long to be kept, because of what all buffers hold (`--buffer-limit`).
    requests_refused_memory,
    /// Requests that failed because of a server, whether the client wanted to know or not.
    requests_failed,
    /// Failed requests whose client had asked for silence (noreply).
    requests_failed_silently,
    /// Failed requests, because no connection to a server could be made.
    requests_failed_connect,
    /// Failed requests, because a server was marked down.
    requests_failed_down,
    /// Failed requests, because a server wants a login (memcached -Y).
    requests_failed_unauthenticated,
    /// Failed requests, because every server that could answer lacks writes, or may.
    requests_failed_stale,
    /// Failed requests, because too much waited for a server.
    requests_failed_full,
    /// Failed requests, because too many waited in the proxy's own queue.
    requests_failed_queue,
    /// Failed requests, because a server did not reply in time.
    requests_failed_timeout,
    /// Failed requests, because the connection to a server ended before its reply.
    requests_failed_closed,
    /// Failed requests, because a server's reply could not be one.
    requests_failed_protocol,
    /// Failed requests, because a server's reply was too large to be kept.
    requests_failed_buffer,
    /// Failed requests, because a server answered with an error of its own (SERVER_ERROR).
    requests_failed_by_reply,
    /// Requests with a stamp before its predecessor, which then counted as equal to it; there should be none.
    stamps_clamped,
    /// Requests whose client had gone before the answer.
    requests_orphaned,
    /// Requests that were refused because too many waited in the proxy's queue (engines pool and split).
    queue_refusals_full,
    /// Requests whose time was up before a worker took them, or that it took too late (engines pool and split).
    queue_timeouts,
    /// Writes that waited because another write to their key was not done (engine pool).
    queue_key_waits,
    /// Requests to delete a key (`delete`, `md`) that found it.
    delete_hits,
    /// Requests to delete a key that did not find it.
    delete_misses,
    /// Requests to increment a number (`incr`, `ma`) that found it.
    incr_hits,
    /// Requests to increment a number that did not find it.
    incr_misses,
    /// Requests to decrement a number (`decr`) that found it.
    decr_hits,
    /// Requests to decrement a number that did not find it.
    decr_misses,
    /// Requests to touch a key (`touch`) that found it.
    touch_hits,
    /// Requests to touch a key that did not find it.
    touch_misses,
    /// Requests to compare and set (`cas`) that stored their value.
    cas_hits,
    /// Requests to compare and set that did not find their key.
    cas_misses,
    /// Requests to compare and set whose item had changed.
    cas_badval,
    /// Keys answered as misses because their server did not answer (`--on-failure degrade`) or may be stale (`--on-stale miss`).
    keys_degraded,
    /// Parts of gets that were put into the message of another one to the same server (`--join-gets`).
    gets_joined,
    /// Reads by `mg` that were not sent, because an equal one waited for the same server, and got the reply to that (`--join-gets`).
    mgs_joined,
    /// Such parts that were asked for again in messages of their own, because the reply to all ended with an error or could not be read.
    gets_asked_alone,
    /// Gets that waited for the reply to an earlier get of their key (`--ask-once`), or to one by `mg` that had not left yet (`--near-cache`).
    gets_coalesced,
    /// Of these, those that were asked for by themselves after all, because the earlier one got no answer, or a long one.
    gets_coalesced_again,
    /// Gets that did not wait for an earlier one, because too many did.
    gets_coalesced_full,
    /// Misses with which a client was let fill a key, while others that miss it wait (`--fill-wait`).
    fill_leases,
    /// Gets that waited for another client to fill their key.
    fill_waits,
    /// Times that such a get was asked again, because its key was written.
    fill_waits_again,
    /// Gets that were answered their miss because they had waited for long enough.
    fill_waits_late,
    /// Gets that were answered their miss at once, because too many wait, or for too many keys.
    fill_waits_full,
    /// Gets that were answered with a value that was kept (`--near-cache`), and nothing was asked.
    near_hits,
    /// Gets that were answered with a value that was kept, after its server was asked and has said that it has not changed (`--near-cache-check`).
    near_same,
    /// Gets whose key's value was kept and was no answer any more: it was written since, was too old, or its server has said so.
    near_outdated,
    /// Gets that were asked for by `mg`, so that the server says how long the item lives and whether it has changed.
    near_asked,
    /// Values that were kept, each time that they came.
    near_kept,
    /// Values that were not kept, because they are too long or there was no room.
    near_full,
    /// Keys that one replica did not have, and that another was asked for: the decider, or who may have them where a server is doubted.
    keys_asked_again,
    /// Times that a server became doubted: a connection to it was closed, refused or broken, or its name has other addresses, so it may be empty.
    servers_doubted,
    /// Times that a doubted server was trusted again, because for long nothing that it missed was found elsewhere.
    servers_trusted,
    /// Keys that a doubted server missed and another one had.
    misses_rescued,
    /// Requests and keys that another replica decided because the primary could not be asked.
    reads_failed_over,
    /// Parts of reads that other replicas were asked for, because the connection was lost before they were answered.
    reads_retried,
    /// Multi-gets that one server was asked for because that was faster of late, or to see whether it is (`--multiget auto`).
    multigets_auto_whole,
    /// Multi-gets that all servers were asked for because that was faster of late, or to see whether it is (`--multiget auto`).
    multigets_auto_sharded,
    /// Times that a server was asked for its version, because requests were late although it had answered: its replies may be out of step.
    server_step_checks,
    /// Messages to servers that got no reply in time.
    server_timeouts,
    /// Replies that came after their request had been answered, and were thrown away.
    server_replies_late,
    /// Connections that were given up because the server wants a login (memcached -Y), and the proxy has none.
    server_logins_wanted,
    /// Connections to servers that wanted a login, and took that of `--server-auth-file`.
    server_logins,
    /// Connections that were given up because the server refused the login of `--server-auth-file`.
    server_logins_refused,
    /// Times that a server was left alone for a while, because connections that it had answered on ended soon after they were made, several in a row.
    server_reconnects_paused,
    /// Connections that a server closed, without a byte, at a question of the proxy's own, before anything of a client was sent there.
    server_questions_closed,
    /// Replies to meta commands that repeated another key than the one that was asked for; each fails its request.
    server_echoes_wrong,
    /// Replies that were thrown away because more of them would have had to be kept than is allowed; each fails its request.
    server_replies_too_large,
    /// Writes that waited because another replica-by-replica write to their key was being decided.
    writes_held,
    /// Writes to keys with several servers whose time was up before it was their turn: no server was asked.
    writes_overdue,
    /// Copies that were deleted on replicas because another had decided a write, or may have, and they could not follow.
    replicas_invalidated,
    /// Reads that were carried out with care, because they name many keys, or bring much by what their client's last ones brought.
    bulk_reads,
    /// Slices of such reads behind the first ones.
    bulk_read_slices,
    /// Times that such a read waited, for what its session had in service or for other such reads; or that a request of its session waited for it.
    bulk_read_waits,
    /// Writes that went over a server's connection for large values (`--large-value`), most of them large.
    requests_apart,
    /// Times that such a write waited until its session had nothing else in service.
    large_waits,
    /// Times that a long write for which much waited already, at its server or on its way to another loop, waited until its session had nothing else in service.
    crowd_waits,
    /// Writes that were answered `EXISTS` without asking a server, because their cas token is not of the server that decides now.
    tokens_outdated,
    /// Conditional writes that were not kept until one replica had decided them, because of what all buffers hold (`--buffer-limit`): the others forget the key.
    follow_refusals_memory,
    /// Messages by which replicas followed a write that another had decided.
    replicas_followed,
    /// Copies that reads had found missing and that were put back (`--read-repair`).
    reads_repaired,
    /// Repairs that were not begun, or not ended, because the key was being written, too many were under way, or the item is marked, too large or about to expire.
    repairs_dropped,
    /// Questions and copies of repairs that a server refused or did not answer. A copy that was sent goes into the server's journal.
    repairs_failed,
    /// Copies that were not written because their server was marked down. Each key goes into the server's journal.
    copies_skipped,
    /// Keys that were put into a journal, because a server lacks a write, or may still carry out an old one.
    journal_keys,
    /// Journals that held too much, so that their servers are to be flushed instead.
    journal_overflows,
    /// Deletes that were sent to make servers forget what they missed.
    journal_deletes,
    /// Such deletes that a server refused for a reason of its own; they are sent again.
    journal_deletes_refused,
    /// Flushes that were sent to make servers forget what they missed.
    journal_flushes,
    /// Such flushes that were refused. The server stays unread.
    journal_flushes_refused,
    /// Servers that were marked down because they did not answer in time, several times in a row.
    servers_marked_down,
    /// Of those, servers that have answered since.
    servers_marked_up,
    /// Second connections that were made to servers that did not answer, to learn whether only the first one is dead.
    second_opinions,
    /// Connections that were given up because their server answered such a second one and not them.
    server_connections_dead,
    /// Reads that another replica was asked for because their server had said nothing for half of their time.
    reads_moved,
    /// Connections with unanswered writes that ended without the server's doing; it stays unread for a while.
    server_quarantines,
    /// Connections to servers that were established.
    server_connects,
    /// Attempts to connect to a server that failed.
    server_connects_failed,
    /// Attempts to connect to a server for which the process had no descriptor but one of those that it holds for that.
    server_connects_reserved,
    /// Attempts to connect to a server for which the process had no descriptor at all.
    server_connects_refused_descriptors,
    /// Established connections to servers that were lost or given up.
    server_disconnects,
    /// Tables of servers and routes that replaced an earlier one.
    tables_replaced,
    /// Servers that a new table did not name, and whose connections were dropped when everything on them was answered.
    servers_left,
    /// Connections to servers that were made anew because their names have other addresses now.
    server_renewals,
    /// Replies that did not fit their request; each costs the connection.
    server_violations,
    /// Messages that were not sent because their server was marked down.
    server_refusals_down,
    /// Messages that were not sent because their server lacks writes, or may still carry out old ones.
    server_refusals_stale,
    /// Messages that were not sent because too many, or too many bytes, waited for their server.
    server_refusals_full,
    /// Replies that were replaced by an error because too many bytes waited for their client.
    session_refusals_full,
    /// Replies that were replaced by an error because of what all buffers hold (`--buffer-limit`).
    buffer_refusals_full,
    /// Times that a session's bytes were left in the kernel because it left replies unread and all buffers held much (`--buffer-limit`).
    sessions_paused_memory,
    /// Requests for statistics that were answered `SERVER_ERROR stats busy`, because too many waited or a thread did not tell in time.
    stats_refused,
    /// Changes of servers that were not reported because too many waited.
    server_changes_dropped,
    /// Bytes read from clients.
    client_bytes_read,
    /// Bytes handed to the kernel for clients.
    client_bytes_written,
    /// Bytes read from servers.
    server_bytes_read,
    /// Bytes handed to the kernel for servers.
    server_bytes_written,
}

impl Counters {
    /// A request is answered in its place, with this.
    pub(crate) const fn note_refusal(&mut self, refusal: Refusal) {
        self.requests += 1;
        self.requests_refused += 1;
        match refusal {
            Refusal::Unauthenticated => self.requests_refused_unauthenticated += 1,
            Refusal::ReadOnly => self.requests_refused_read_only += 1,
            Refusal::OtherPool => self.requests_refused_pool += 1,
            _ => {}
        }
    }

    /// The same of a request that was taken, because of keys behind its first ones.
    pub(crate) const fn note_refusal_of_slice(&mut self) {
        self.requests_refused += 1;
        self.requests_refused_pool += 1;
    }

    /// A client spoke another protocol.
    pub(crate) const fn note_foreign(&mut self, foreign: &Foreign) {
        self.requests += 1;
        self.requests_refused += 1;
        *match foreign {
            Foreign::Binary(_) => &mut self.sessions_refused_binary,
            Foreign::Tls => &mut self.sessions_refused_tls,
            Foreign::Http => &mut self.sessions_refused_http,
        } += 1;
    }

    /// What a server answered to a request of such an operation ([`has_result`]). Errors and silence are no result.
    #[inline(never)]
    pub(crate) fn note_result(&mut self, operation: Operation, reply: &[u8]) {
        let is_missing = matches!(reply.get(..2), Some(b"NO" | b"NF"));
        let is_found = match reply.first() {
            // `DELETED`, `TOUCHED`, `STORED`, `HD`, `VA`, a number.
            Some(b'D' | b'T' | b'H' | b'V' | b'0'..=b'9') => true,
            Some(b'S') => reply.starts_with(b"STORED"),
            _ => false,
        };
        let (hits, misses) = match operation {
            Operation::Delete => (&mut self.delete_hits, &mut self.delete_misses),
            Operation::Incr => (&mut self.incr_hits, &mut self.incr_misses),
            Operation::Decr => (&mut self.decr_hits, &mut self.decr_misses),
            Operation::Touch => (&mut self.touch_hits, &mut self.touch_misses),
            Operation::Cas if reply.starts_with(b"EXISTS") => return self.cas_badval += 1,
            Operation::Cas => (&mut self.cas_hits, &mut self.cas_misses),
            _ => return,
        };
        *hits += u64::from(is_found);
        *misses += u64::from(is_missing);
    }

    /// A request failed; without a `fault` a server said so itself.
    pub(crate) fn count_failure(&mut self, fault: Option<Fault>) {
        self.requests_failed += 1;
        *match fault {
            Some(Fault::Connect) => &mut self.requests_failed_connect,
            Some(Fault::Down) => &mut self.requests_failed_down,
            Some(Fault::Unauthenticated) => &mut self.requests_failed_unauthenticated,
            Some(Fault::Stale) => &mut self.requests_failed_stale,
            Some(Fault::Full) => &mut self.requests_failed_full,
            Some(Fault::Queue) => &mut self.requests_failed_queue,
            Some(Fault::Timeout) => &mut self.requests_failed_timeout,
            Some(Fault::Closed) => &mut self.requests_failed_closed,
            Some(Fault::Protocol) => &mut self.requests_failed_protocol,
            Some(Fault::Buffer) => &mut self.requests_failed_buffer,
            None => &mut self.requests_failed_by_reply,
        } += 1;
    }
}

/// Whether the reply to such a request says if its key was found, and is counted. (What retrievals find is counted with their times.)
#[inline(always)]
pub(crate) fn has_result(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::Cas | Operation::Delete | Operation::Incr | Operation::Decr | Operation::Touch
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_shows_in_the_first_word() {
        let mut counters = Counters::default();
        for (operation, reply) in [
            (Operation::Delete, "DELETED\r\n"),
            (Operation::Delete, "HD\r\n"),
            (Operation::Delete, "NF\r\n"),
            (Operation::Incr, "17\r\n"),
            (Operation::Incr, "NOT_FOUND\r\n"),
            (Operation::Decr, "VA 1\r\n1\r\n"),
            (Operation::Touch, "TOUCHED\r\n"),
            (Operation::Touch, "NOT_FOUND\r\n"),
            (Operation::Cas, "STORED\r\n"),
            (Operation::Cas, "EXISTS\r\n"),
            (Operation::Cas, "NOT_FOUND\r\n"),
            (Operation::Cas, "SERVER_ERROR out of memory\r\n"),
            (Operation::Delete, "EX\r\n"),
            (Operation::Delete, ""),
        ] {
            assert!(has_result(operation));
            counters.note_result(operation, reply.as_bytes());
        }
        let expected = Counters {
            delete_hits: 2,
            delete_misses: 1,
            incr_hits: 1,
            incr_misses: 1,
            decr_hits: 1,
            touch_hits: 1,
            touch_misses: 1,
            cas_hits: 1,
            cas_misses: 1,
            cas_badval: 1,
            ..Counters::default()
        };
        assert_eq!(counters, expected);
    }

    #[test]
    fn names_are_unique_and_described() {
        let counters = Counters { requests: 3, ..Counters::default() };
        let names: std::collections::BTreeSet<_> = counters.entries().map(|(name, ..)| name).collect();
        assert_eq!(names.len(), counters.entries().count());
        assert!(counters.entries().all(|(_, meaning, _)| meaning.ends_with('.')));
        let mut sum = counters.clone();
        sum.merge(&counters);
        assert_eq!(sum.requests, 6);
        assert_eq!(sum.since(&counters), counters);
    }
}
