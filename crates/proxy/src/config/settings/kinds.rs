//! Kinds of values: how each is read, written and compared.

use super::Setting;
use std::{
    fmt::Display, marker::PhantomData, path::PathBuf, str::FromStr, sync::OnceLock, thread, time::Duration,
};
use weir_dataplane::Word;
use weir_routing::{Endpoint, Server};
use weir_timing::{duration, duration_text};

/// How the file writes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// In quotes.
    Text,
    /// A whole number.
    Number,
    /// A number with a fraction.
    Share,
    /// `true` or `false`.
    Truth,
    /// In quotes, with a unit of time.
    Time,
    /// In quotes, with a unit of memory.
    Size,
}

impl Form {
    /// What the file is expected to say.
    pub const fn expected(self) -> &'static str {
        match self {
            Self::Text => "text in quotes",
            Self::Number => "a whole number",
            Self::Share => "a number",
            Self::Truth => "true or false",
            Self::Time => "a time with its unit (us, ms, s, m, h), in quotes, such as \"400ms\"",
            Self::Size => "a size with its unit (b, k, m, g), in quotes, such as \"64k\"",
        }
    }
}

/// Values of one kind.
pub trait Kind {
    /// As the code takes it.
    type Value: Clone + PartialEq;

    /// What stands for it in the help.
    const NAME: &'static str;
    const FORM: Form;
    /// The words that it takes, each with its meaning.
    const WORDS: &'static [(&'static str, &'static str)] = &[];

    fn parse(text: &str) -> Result<Self::Value, String>;

    /// As [`Kind::parse`] takes it; nothing if it is not set.
    fn text(value: &Self::Value) -> Option<String>;

    /// What holds if nothing is said.
    fn otherwise(row: &Setting) -> Self::Value {
        Self::parse(row.default).expect("the default of a row is one of its values")
    }

    /// What is compared with the least and the most: the number that it is written as, if nothing else is said.
    fn amount(value: &Self::Value) -> Option<f64> {
        Self::text(value)?.parse().ok()
    }
}

/// The text in the form in which it is kept, if it is a value, and within the bounds of the row.
pub(super) fn check<K: Kind>(row: &Setting, text: &str) -> Result<Option<String>, String> {
    let value = K::parse(text)?;
    let bound = |text: &str| K::parse(text).ok().as_ref().and_then(K::amount);
    let amount = K::amount(&value);
    let is_less = amount < bound(row.least);
    let is_more = bound(row.most).is_some_and(|most| amount > Some(most));
    if !is_less && !is_more {
        return Ok(K::text(&value));
    }
    let range = match (row.least, row.most) {
        (least, "") => format!("at least {least}"),
        ("", most) => format!("at most {most}"),
        (least, most) => format!("{least} to {most}"),
    };
    Err(match row.why {
        "" => format!("{text} is out of range: give {range}"),
        why => format!("{text} is too {}: {why}; give {range}", if is_less { "little" } else { "much" }),
    })
}

/// Kinds that take no parameters: reading, writing, and what is compared.
macro_rules! kinds {
    ($($(#[doc = $about:literal])+ $kind:ident($value:ty, $name:literal, $form:ident):
        $parse:expr, $text:expr $(, $amount:expr)?;)+) => {
        $($(#[doc = $about])+
        pub struct $kind;

        impl Kind for $kind {
            type Value = $value;

            const NAME: &'static str = $name;
            const FORM: Form = Form::$form;

            fn parse(text: &str) -> Result<$value, String> {
                $parse(text)
            }

            fn text(value: &$value) -> Option<String> {
                Some($text(value))
            }

            $(fn amount(value: &$value) -> Option<f64> {
                Some($amount(value))
            })?
        })+
    };
}

kinds! {
    /// A time with its unit.
    Time(Duration, "TIME", Time): duration, |it: &Duration| duration_text(*it), Duration::as_secs_f64;
    /// Memory with its unit.
    Size(usize, "BYTES", Size): bytes, |it: &usize| bytes_text(*it), |it: &usize| *it as f64;
    /// Whether something is done.
    Truth(bool, "BOOL", Truth): truth, bool::to_string;
    /// A part of a whole: above 0, at most 1.
    Share(f64, "SHARE", Share): share, f64::to_string;
    /// Permission bits in octal digits, as chmod(1) takes them.
    Mode(u32, "MODE", Text): mode, |it: &u32| format!("{it:o}");
    /// A port, or a socket in the file system. A name is looked up when it is used.
    Address(String, "ADDRESS", Text): address, String::clone;
    /// A port.
    Port(String, "ADDRESS", Text): port, String::clone;
    /// Names of hosts, with commas between them.
    Hosts(Vec<String>, "NAMES", Text): hosts, |it: &Vec<String>| it.join(",");
    /// Any text.
    Text(String, "TEXT", Text): |text: &str| Ok(text.to_owned()), String::clone;
    /// A path.
    File(PathBuf, "FILE", Text): |text: &str| Ok(text.into()), |it: &PathBuf| it.display().to_string();
}

/// May be left unset.
pub struct Maybe<K>(PhantomData<K>);

impl<K: Kind> Kind for Maybe<K> {
    type Value = Option<K::Value>;

    const NAME: &'static str = K::NAME;
    const FORM: Form = K::FORM;

    fn parse(text: &str) -> Result<Self::Value, String> {
        K::parse(text).map(Some)
    }

    fn text(value: &Self::Value) -> Option<String> {
        value.as_ref().and_then(K::text)
    }

    fn otherwise(_: &Setting) -> Self::Value {
        None
    }

    fn amount(value: &Self::Value) -> Option<f64> {
        value.as_ref().and_then(K::amount)
    }
}

/// A whole number.
pub struct Number<T>(PhantomData<T>);

impl<T: Clone + PartialEq + FromStr + Display> Kind for Number<T> {
    type Value = T;

    const NAME: &'static str = "N";
    const FORM: Form = Form::Number;

    fn parse(text: &str) -> Result<T, String> {
        text.parse().map_err(|_| format!("{text:?} is no whole number"))
    }

    fn text(value: &T) -> Option<String> {
        Some(value.to_string())
    }
}

/// How many event loops: by default one for each core that affinity and quota leave to the process. What the first look found counts, so
/// that a reload finds the same.
pub struct Loops;

impl Kind for Loops {
    type Value = usize;

    const NAME: &'static str = "N";
    const FORM: Form = Form::Number;

    fn parse(text: &str) -> Result<usize, String> {
        Number::parse(text)
    }

    fn text(value: &usize) -> Option<String> {
        Number::text(value)
    }

    fn otherwise(row: &Setting) -> usize {
        static CORES: OnceLock<usize> = OnceLock::new();
        let cores = *CORES.get_or_init(|| thread::available_parallelism().map_or(1, usize::from));
        cores.min(row.most.parse().unwrap_or(cores))
    }
}

/// What has a name of its own in another crate.
pub struct Named<T>(PhantomData<T>);

impl<T: Clone + PartialEq + Display + FromStr<Err: Display>> Kind for Named<T> {
    type Value = T;

    const NAME: &'static str = "NAME";
    const FORM: Form = Form::Text;

    fn parse(text: &str) -> Result<T, String> {
        text.parse().map_err(|error: T::Err| error.to_string())
    }

    fn text(value: &T) -> Option<String> {
        Some(value.to_string())
    }
}

/// One of few words.
pub struct Choice<T>(PhantomData<T>);

impl<T: Word> Kind for Choice<T> {
    type Value = T;

    const NAME: &'static str = "HOW";
    const FORM: Form = Form::Text;
    const WORDS: &'static [(&'static str, &'static str)] = T::WORDS;

    fn parse(text: &str) -> Result<T, String> {
        Named::parse(text)
    }

    fn text(value: &T) -> Option<String> {
        Named::text(value)
    }
}

/// As the command line has always taken it.
fn truth(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "y" | "yes" | "t" | "true" | "on" | "1" => Ok(true),
        "n" | "no" | "f" | "false" | "off" | "0" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false")),
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share: f64 =
        text.parse().map_err(|_| "a share is a number above 0 and at most 1, such as 0.01".to_owned())?;
    let is_share = share > 0.0 && share <= 1.0;
    is_share.then_some(share).ok_or_else(|| format!("{share} is not above 0 and at most 1"))
}

fn mode(text: &str) -> Result<u32, String> {
    let is_octal = (1..=4).contains(&text.len()) && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    let mode = is_octal.then(|| u32::from_str_radix(text, 8).ok()).flatten();
    let mode = mode.filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| format!("{text:?} is no mode: give three octal digits, such as 660"))
}

fn address(text: &str) -> Result<String, String> {
    match text.starts_with("unix:") || text.starts_with('/') {
        true => path(text),
        false => port(text).map_err(|reason| format!("{reason} or unix:/path")),
    }
}

fn path(text: &str) -> Result<String, String> {
    match text.parse::<Server>().map(|server| (server.is_named(), server.endpoint)) {
        Ok((false, Endpoint::Unix { path })) if text.ends_with(&path) => Ok(text.to_owned()),
        _ => Err(format!(
            "{text:?} is no path of a socket: give unix:/PATH of at most 107 bytes without spaces, commas and colons"
        )),
    }
}

/// Its form is that of a server, but that the kernel may choose the number.
fn port(text: &str) -> Result<String, String> {
    let is_address = text.rsplit_once(':').is_some_and(|(host, port)| {
        let server = format!("{host}:1");
        port.parse::<u16>().is_ok() && server.parse::<Server>().is_ok_and(|it| it.address() == server)
    });
    is_address.then(|| text.to_owned()).ok_or_else(|| format!("{text:?} is no address: write host:port"))
}

fn hosts(text: &str) -> Result<Vec<String>, String> {
    text.split(',').filter(|_| !text.is_empty()).map(|name| host(name.trim())).collect()
}

fn host(name: &str) -> Result<String, String> {
    let is_name =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    let plain = is_name.then(|| name.trim_end_matches('.').to_owned());
    plain.ok_or_else(|| {
        format!("{name:?} is no name of a host: give names without port, with commas between them")
    })
}

/// `4096b`, `64k`, `1m`, `1g`, with or without `b` or `ib` behind the letter: powers of 1024, as memcached's own options. Nothing but 0
/// goes without its unit: one program takes 64 for bytes, the next for megabytes.
fn bytes(text: &str) -> Result<usize, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim();
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return Err(format!("the unit {unit:?} is none of b, k, m, g")),
    };
    let is_number = !number.is_empty();
    let value: usize = number.parse().map_err(|_| match is_number {
        true => "that is more than can be counted".to_owned(),
        false => "a size is a number and a unit, such as 64k or 1m".to_owned(),
    })?;
    if unit.is_empty() && value != 0 {
        return Err(format!(
            "{number} has no unit: write {number}b for bytes, {number}k, {number}m or {number}g"
        ));
    }
    value.checked_mul(1 << shift).ok_or_else(|| "that is more than can be counted".to_owned())
}

/// The same size in the largest unit that leaves no fraction.
fn bytes_text(bytes: usize) -> String {
    let units = [(30, 'g'), (20, 'm'), (10, 'k')];
    match units.into_iter().find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift) {
        Some((shift, unit)) => format!("{}{unit}", bytes >> shift),
        None => format!("{bytes}b"),
    }
}
