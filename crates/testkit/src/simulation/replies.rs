//! Replies as a client reads them: by the lengths that they state.

/// One value of a retrieval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) key: Vec<u8>,
    pub(super) flags: u32,
    pub(super) data: Vec<u8>,
    pub(super) cas: Option<u64>,
}

/// What an `mg` is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Read {
    Hit(Value),
    Miss,
    /// This line of a failure.
    Failure(Vec<u8>),
}

/// The first line of `bytes` with its line ending, if it is complete.
pub(super) fn line(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    Some(&bytes[..end + 2])
}

/// The values at the front of `bytes` up to and with `END`, and how many bytes they take; nothing if they are not
/// complete.
pub(super) fn values(bytes: &[u8]) -> Result<Option<(Vec<Value>, usize)>, String> {
    let mut values = Vec::new();
    let mut at = 0;
    loop {
        let Some(head) = line(&bytes[at..]) else { return Ok(None) };
        if head == b"END\r\n" {
            return Ok(Some((values, at + head.len())));
        }
        let (mut value, length) =
            header(head).ok_or_else(|| format!("{:?} stands among values", String::from_utf8_lossy(head)))?;
        at += head.len();
        let Some(block) = bytes.get(at..at + length + 2) else { return Ok(None) };
        let (data, ending) = block.split_at(length);
        if ending != b"\r\n" {
            return Err(format!("the value of {:?} has not its length", String::from_utf8_lossy(&value.key)));
        }
        value.data = data.to_vec();
        at += block.len();
        values.push(value);
    }
}

/// The answer at the front of `bytes` to `mg KEY k f v OPAQUE`, and how many bytes it takes; nothing if it is not complete. A quiet one that
/// says nothing shows by the answer to the `mn` behind it.
pub(super) fn read(
    bytes: &[u8],
    key: &[u8],
    opaque: &str,
    is_quiet: bool,
) -> Result<Option<(Read, usize)>, String> {
    let Some(head) = line(bytes) else { return Ok(None) };
    let text = String::from_utf8_lossy(&head[..head.len() - 2]).into_owned();
    let words: Vec<_> = text.split(' ').collect();
    let named = format!("k{}", String::from_utf8_lossy(key));
    Ok(Some(match words[..] {
        ["MN"] if is_quiet => (Read::Miss, 0),
        ["EN", repeated, called] if !is_quiet && repeated == named && called == opaque => {
            (Read::Miss, head.len())
        }
        ["SERVER_ERROR", ..] => (Read::Failure(head.to_vec()), head.len()),
        // What `mg` with `N` has made is marked by `Z`.
        ["VA", len, repeated, flags, called] | ["VA", len, repeated, flags, called, "Z"]
            if repeated == named && called == opaque =>
        {
            let no_number = || format!("{text:?} has no number");
            let flags =
                flags.strip_prefix('f').and_then(|digits| digits.parse().ok()).ok_or_else(no_number)?;
            let end = head.len() + len.parse::<usize>().map_err(|_| no_number())?;
            let Some(ending) = bytes.get(end..end + 2) else { return Ok(None) };
            if ending != b"\r\n" {
                return Err(format!("the value behind {text:?} has not its length"));
            }
            let data = bytes[head.len()..end].to_vec();
            (Read::Hit(Value { key: key.to_vec(), flags, data, cas: None }), end + 2)
        }
        _ => return Err(format!("{text:?} is no answer to what is called {opaque}")),
    }))
}

/// The error line behind some whole values, and where it ends: the rest of the values could not be asked for.
pub(super) fn cut_short(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let mut at = 0;
    loop {
        let head = line(&bytes[at..])?;
        if at > 0 && head.starts_with(b"SERVER_ERROR ") {
            return Some((head, at + head.len()));
        }
        let (_, length) = header(head)?;
        at += head.len() + length + 2;
        bytes.get(at..)?;
    }
}

fn header(line: &[u8]) -> Option<(Value, usize)> {
    let text = std::str::from_utf8(line).ok()?.strip_suffix("\r\n")?;
    let mut words = text.strip_prefix("VALUE ")?.split(' ');
    let key = words.next()?.as_bytes().to_vec();
    let flags = words.next()?.parse().ok()?;
    let length = words.next()?.parse().ok()?;
    let cas = words.next().map(str::parse).transpose().ok()?;
    let value = Value { key, flags, data: Vec::new(), cas };
    words.next().is_none().then_some((value, length))
}
