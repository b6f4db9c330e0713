//! Who may ask the admin port, as far as a question tells: what its `Host` and `Origin` say.
//!
//! A token shows who somebody is, where the configuration has one (`config/admin_access.rs`). Without it, a browser on a machine that may reach it can be made to ask by any page that it shows. Two things tell such a
//! question from an operator's. A page of another site is named in `Origin`. A page whose own name was made to point here (DNS rebinding)
//! has that name in `Host`, and an attacker can have any name but an address, `localhost` or one without a dot.
//!
//! | question | `Origin`, if there is one | `Host` |
//! |---|---|---|
//! | `/metrics`, `/healthz`, `/readyz` | must be that of `Host` | any: scrapers ask by whatever name they know |
//! | other pages | must be that of `Host` | an address, `localhost`, a name without a dot, or one of `--admin-host`; or none, which no browser does |
//! | `POST` | must be that of `Host` | the same, and it must be there |

use hyper::{
    HeaderMap, Method,
    header::{AUTHORIZATION, HOST, ORIGIN},
};
use std::net::{IpAddr, Ipv6Addr};

/// Says why a question is not answered, if it is not.
pub(super) fn check(
    names: &[String],
    method: &Method,
    path: &str,
    headers: &HeaderMap,
) -> Result<(), String> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (None, _) => None,
        (Some(host), None) => Some(host.to_str().map_err(|_| "Host is not text".to_owned())?),
        (Some(_), Some(_)) => return Err("there are several Host headers".into()),
    };
    for origin in headers.get_all(ORIGIN) {
        let origin = origin.to_str().unwrap_or_default();
        if !is_of(origin, host) {
            return Err("the question comes from a page of another site (Origin)".into());
        }
    }
    match host {
        _ if *method == Method::GET && matches!(path, "/metrics" | "/healthz" | "/ready" | "/readyz") => {
            Ok(())
        }
        None if *method == Method::GET => Ok(()),
        None => Err("there is no Host header".into()),
        Some(host) if is_known(name_of(host), names) => Ok(()),
        Some(_) => Err(
            "the name in Host is not known here; ask by address, or start the proxy with --admin-host NAME"
                .into(),
        ),
    }
}

/// The token that a question shows: `Authorization: Bearer TOKEN`, once.
pub(super) fn token(headers: &HeaderMap) -> Option<&[u8]> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (all.next(), all.next()) else { return None };
    let (scheme, token) = value.as_bytes().split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token)
}

/// Whether a page of this origin was loaded from this host.
fn is_of(origin: &str, host: Option<&str>) -> bool {
    let place = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    matches!((place, host), (Some(place), Some(host)) if place.eq_ignore_ascii_case(host))
}

/// The host without its port.
fn name_of(host: &str) -> &str {
    if host.starts_with('[') {
        return host.split_inclusive(']').next().unwrap_or(host);
    }
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn is_known(name: &str, names: &[String]) -> bool {
    let bare = name.strip_suffix('.').unwrap_or(name);
    let inner = name.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    inner.is_some_and(|it| it.parse::<Ipv6Addr>().is_ok())
        || name.parse::<IpAddr>().is_ok()
        || (!bare.is_empty()
            && bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)))
        || names.iter().any(|it| it.eq_ignore_ascii_case(bare))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HeaderName, HeaderValue};

    fn is_answered(method: &Method, path: &str, headers: &[(HeaderName, &'static str)]) -> bool {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, HeaderValue::from_static(value));
        }
        check(&["proxy.example.org".to_owned()], method, path, &map).is_ok()
    }

    #[test]
    fn a_name_that_was_made_to_point_here_is_refused_but_for_what_scrapers_ask() {
        for host in [
            "10.0.0.1:21280",
            "[::1]:21280",
            "localhost:1",
            "weir",
            "proxy.example.org.:80",
            "PROXY.example.org",
        ] {
            assert!(is_answered(&Method::GET, "/config", &[(HOST, host)]), "{host}");
            assert!(is_answered(&Method::POST, "/reload", &[(HOST, host)]), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:21280",
            "127.0.0.1.evil.example",
            "proxy.example.org.evil",
            "",
            ":1",
            "a b",
        ] {
            assert!(!is_answered(&Method::GET, "/config", &[(HOST, host)]), "{host}");
            assert!(!is_answered(&Method::POST, "/reload", &[(HOST, host)]), "{host}");
            assert!(!is_answered(&Method::POST, "/metrics", &[(HOST, host)]), "{host}");
            for path in ["/metrics", "/healthz", "/ready", "/readyz"] {
                assert!(is_answered(&Method::GET, path, &[(HOST, host)]), "{host}");
            }
        }
        assert!(is_answered(&Method::GET, "/config", &[]), "no browser does that");
        assert!(!is_answered(&Method::POST, "/reload", &[]));
        assert!(!is_answered(&Method::GET, "/config", &[(HOST, "127.0.0.1"), (HOST, "127.0.0.1")]));
    }

    #[test]
    fn a_token_is_shown_in_one_header() {
        let shown = |values: &[&'static str]| {
            let mut map = HeaderMap::new();
            values.iter().for_each(|value| {
                map.append(AUTHORIZATION, HeaderValue::from_static(value));
            });
            token(&map).map(<[u8]>::to_vec)
        };
        assert_eq!(shown(&["Bearer word"]), Some(b"word".to_vec()));
        assert_eq!(shown(&["bearer word"]), Some(b"word".to_vec()));
        for values in [&[][..], &["word"], &["Basic word"], &["Bearer"], &["Bearer word", "Bearer word"]] {
            assert_eq!(shown(values), None, "{values:?}");
        }
    }

    #[test]
    fn a_page_of_another_site_is_refused_everywhere() {
        for path in ["/metrics", "/snapshot", "/healthz"] {
            for origin in ["http://evil.example", "https://127.0.0.1:2", "http://127.0.0.1", "null", ""] {
                let headers = [(HOST, "127.0.0.1:1"), (ORIGIN, origin)];
                assert!(!is_answered(&Method::GET, path, &headers), "{path} {origin}");
                assert!(!is_answered(&Method::POST, "/reload", &headers), "{origin}");
            }
            let own = [(HOST, "127.0.0.1:1"), (ORIGIN, "http://127.0.0.1:1")];
            assert!(is_answered(&Method::GET, path, &own));
        }
    }
}
