//! Files that a setting names, read so that none of them stops who reads it.

use super::clock::Clock;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _},
    os::{fd::AsFd as _, unix::fs::OpenOptionsExt as _},
    path::Path,
};

/// How long a pipe or a terminal may take to give all that it has, in milliseconds: long enough for who fetches it from elsewhere.
const WAIT_MAX_MS: u64 = 60_000;

/// The bytes of a file: at most `bytes_max`, and one more where it has more, so that the caller sees it.
///
/// A pipe gives what is written to it before it ends. Opening and reading one would otherwise wait for whoever writes, for
/// ever where nobody does: at a reload no configuration would be read again. After a minute this is an error.
pub fn read_file(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_within(WAIT_MAX_MS, path, bytes_max)
}

fn read_within(wait_ms: u64, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let mut part = (&file).take(bytes_max.saturating_add(1));
    let (clock, mut bytes) = (Clock::start(), Vec::new());
    loop {
        let passed_ms = clock.now().as_nanos() / 1_000_000;
        if !is_readable(&file, wait_ms.saturating_sub(passed_ms))? {
            continue;
        }
        match part.read_to_end(&mut bytes) {
            Ok(_) => return Ok(bytes),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// Waits until it is, as a regular file is always, and what has ended. A signal ends the wait: then it is to be asked again.
fn is_readable(file: &File, wait_ms: u64) -> io::Result<bool> {
    let wait = PollTimeout::try_from(wait_ms).unwrap_or(PollTimeout::MAX);
    match poll(&mut [PollFd::new(file.as_fd(), PollFlags::POLLIN)], wait) {
        Ok(0) => {
            let reason =
                format!("it is a pipe or a device that did not end within {} s", WAIT_MAX_MS / 1_000);
            Err(io::Error::new(io::ErrorKind::TimedOut, reason))
        }
        Ok(_) => Ok(true),
        Err(Errno::EINTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{env, fs, io::Write as _, os::fd::AsRawFd, path::PathBuf, process, thread};

    /// The path of an open file of this process.
    fn path_of(file: &impl AsRawFd) -> PathBuf {
        format!("/proc/self/fd/{}", file.as_raw_fd()).into()
    }

    #[test]
    fn a_pipe_to_which_nobody_writes_is_an_error() {
        let (reader, writer) = io::pipe().expect("there are descriptors");
        let path = path_of(&reader);
        assert_eq!(read_within(20, &path, 10).unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(writer);
        assert_eq!(read_within(20, &path, 10).expect("it has ended"), b"");
    }

    /// It has no writer yet, which is not the end of what it has.
    #[test]
    fn a_named_pipe_is_waited_for_until_somebody_writes() {
        let path = env::temp_dir().join(format!("weir-pipe-{}", process::id()));
        let made = process::Command::new("mkfifo").arg(&path).status().expect("there is mkfifo");
        assert!(made.success());
        let silent = read_within(20, &path, 10).unwrap_err();
        let writing = thread::spawn({
            let path = path.clone();
            move || fs::write(path, b"late")
        });
        let late = read_file(&path, 10);
        writing.join().expect("it ran").expect("it is read");
        fs::remove_file(&path).expect("it is there");
        assert_eq!(silent.kind(), io::ErrorKind::TimedOut);
        assert_eq!(late.expect("it was written to"), b"late");
    }

    #[test]
    fn a_pipe_gives_what_is_written_in_parts() {
        let (reader, mut writer) = io::pipe().expect("there are descriptors");
        let writing = thread::spawn(move || {
            writer.write_all(b"one, ").expect("it is read");
            writer.write_all(&[b'x'; 200_000]).expect("it is read");
        });
        let read = read_file(&path_of(&reader), 1 << 20).expect("it is written to");
        writing.join().expect("it wrote");
        assert_eq!((read.len(), &read[..6]), (200_005, &b"one, x"[..]));
    }

    #[test]
    fn a_file_gives_one_byte_more_than_it_may_have() {
        let path = env::temp_dir().join(format!("weir-files-{}", process::id()));
        fs::write(&path, b"0123456789").expect("the folder is there");
        let read = [3, 9, 10, 11].map(|most| read_file(&path, most).expect("it is there").len());
        fs::remove_file(&path).expect("it is there");
        assert_eq!(read, [4, 10, 10, 10]);
        assert!(read_file(&env::temp_dir(), 3).is_err());
    }
}
