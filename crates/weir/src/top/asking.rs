//! How the admin port of a proxy is asked: in plain or in TLS, with a token or without.

use std::fs;
use std::io::{self, ErrorKind, Read as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto::ring};
use serde_json::Value;

use super::judge::harmless;

/// How long the proxy may take to answer.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// The longest answer that is read, in bytes: two minutes of windows.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// How much of what it says to an error is shown, in characters.
const SAID_MAX: usize = 200;

/// The longest file of a token or of authorities that is read, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// What the admin port wants to see.
#[derive(Args, Debug)]
pub(super) struct AccessArgs {
    /// A file with the token that the admin port wants to see (weir proxy --admin-token-file)
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Speak TLS to the admin port, whose certificate is signed by an authority of this PEM file (weir proxy --admin-tls-cert)
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

/// The admin port of a proxy.
pub(super) struct AdminPort {
    /// HOST:PORT.
    address: String,
    token: Option<String>,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

impl AdminPort {
    /// Reads the files.
    pub(super) fn new(address: &str, access: &AccessArgs) -> Result<Self, String> {
        let token = access.token_file.as_deref().map(token).transpose()?;
        let tls = match access.ca.as_deref() {
            None => None,
            Some(file) => Some((terms(file)?, name(address)?)),
        };
        Ok(Self { address: address.to_owned(), token, tls })
    }

    /// Where it is, as it was given.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// What it answers, as JSON.
    pub(super) fn get(&self, path: &str) -> Result<Value, String> {
        let answer = self.fetch(path).map_err(|error| error.to_string())?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or("it answers something else than HTTP")?;
        let status = head.split_whitespace().nth(1).unwrap_or_default();
        if status != "200" {
            let said: String = harmless(body.trim()).chars().take(SAID_MAX).collect();
            return Err(format!("status {}: {said}", harmless(status)));
        }
        serde_json::from_str(body).map_err(|error| format!("it answers something else than JSON: {error}"))
    }

    fn fetch(&self, path: &str) -> io::Result<String> {
        let address = self.address.to_socket_addrs()?.next();
        let address = address.ok_or_else(|| io::Error::other("the name has no address"))?;
        let plain = TcpStream::connect_timeout(&address, WAIT_MAX)?;
        plain.set_read_timeout(Some(WAIT_MAX))?;
        plain.set_write_timeout(Some(WAIT_MAX))?;
        let token = self.token.as_ref().map(|token| format!("Authorization: Bearer {token}\r\n"));
        // By its address: the port knows few names of its machine.
        let question = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\n{}Connection: close\r\n\r\n",
            token.unwrap_or_default()
        );
        match &self.tls {
            None => ask(plain, &question),
            Some((terms, name)) => {
                let session = ClientConnection::new(Arc::clone(terms), name.clone());
                ask(StreamOwned::new(session.map_err(io::Error::other)?, plain), &question)
            }
        }
    }
}

/// Each read is bounded by the stream's own limit, so that nobody waits for more than twice [`WAIT_MAX`].
#[expect(clippy::disallowed_methods, reason = "an answer that trickles must end, too")]
fn ask(mut stream: impl io::Read + io::Write, question: &str) -> io::Result<String> {
    let began = Instant::now();
    stream.write_all(question.as_bytes())?;
    stream.flush()?;
    let (mut answer, mut part) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        let count = stream.read(&mut part)?;
        if count == 0 {
            break;
        }
        answer.extend_from_slice(&part[..count]);
        if answer.len() > ANSWER_BYTES_MAX {
            return Err(io::Error::other("its answer is longer than any of a proxy's"));
        }
        if began.elapsed() > WAIT_MAX {
            return Err(io::Error::new(ErrorKind::TimedOut, "its answer takes longer than 5 s"));
        }
    }
    String::from_utf8(answer).map_err(|_| io::Error::other("its answer is no text"))
}

/// The host of HOST:PORT, as a certificate names it.
fn name(address: &str) -> Result<ServerName<'static>, String> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    ServerName::try_from(host).map_err(|_| format!("{address} has no name that a certificate could have"))
}

fn token(file: &Path) -> Result<String, String> {
    let refused = |reason: &str| format!("--token-file {}: {reason}", file.display());
    let text = read(file).map_err(|error| refused(&format!("it cannot be read: {error}")))?;
    let text = String::from_utf8(text).map_err(|_| refused("it is no text"))?;
    let token = text.trim_end_matches(['\r', '\n']);
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(refused("it has no token: one line without spaces"));
    }
    Ok(token.to_owned())
}

fn terms(file: &Path) -> Result<Arc<ClientConfig>, String> {
    let refused = |reason: String| format!("--ca {}: {reason}", file.display());
    let bytes = read(file).map_err(|error| refused(format!("it cannot be read: {error}")))?;
    let mut authorities = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&bytes) {
        let certificate = certificate.map_err(|error| refused(format!("it is no PEM: {error}")))?;
        let added = authorities.add(certificate);
        added.map_err(|error| refused(format!("a certificate of it is no authority's: {error}")))?;
    }
    if authorities.is_empty() {
        return Err(refused("it has no certificate (-----BEGIN CERTIFICATE-----)".to_owned()));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder =
        builder.with_safe_default_protocol_versions().map_err(|error| refused(error.to_string()))?;
    Ok(Arc::new(builder.with_root_certificates(authorities).with_no_client_auth()))
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(file)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}
