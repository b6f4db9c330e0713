//! `weir top`: what a proxy is doing now, in a terminal.
//!
//! A thread asks the admin port for new windows; this one draws the newest and listens to the keyboard. `--once` prints the same lines
//! and ends. What is shown: `docs/operate/run.md`; how it is judged: `docs/understand/timing.md`.

mod asking;
mod hot;
mod judge;
mod names;
mod source;
mod view;

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use asking::{AccessArgs, AdminPort};
use source::News;

/// The flags of `weir top`.
#[derive(Args, Debug)]
#[command(after_help = "\
Example: weir top 127.0.0.1:21280

Keys: q, Esc or Ctrl-C ends it.")]
pub(crate) struct TopArgs {
    /// The admin port of a proxy (weir proxy --admin)
    #[arg(value_name = "HOST:PORT")]
    admin: String,
    #[command(flatten)]
    access: AccessArgs,
    /// Print one second as plain text, as soon as there is one, and end. Use it in scripts
    #[arg(long)]
    once: bool,
}

/// How long `--once` waits for a second to be over.
const ONCE_WAIT_MAX: Duration = Duration::from_secs(30);

/// How often the keyboard is looked at.
const TICK: Duration = Duration::from_millis(100);

/// The width of the plain text.
const ONCE_WIDTH: u16 = 100;

impl TopArgs {
    /// Shows until a key ends it.
    pub(crate) fn run(&self) -> ExitCode {
        let admin = match AdminPort::new(&self.admin, &self.access) {
            Ok(admin) => admin,
            Err(error) => return crate::fail(2, &error),
        };
        let news = match source::begin(admin) {
            Ok(news) => news,
            Err(error) => return crate::fail(1, &error),
        };
        if self.once {
            return print_once(&news);
        }
        if !io::stdout().is_terminal() {
            return crate::fail(2, &"standard output is no terminal; --once prints plain text");
        }
        let mut terminal = ratatui::init();
        let shown = show(&mut terminal, &self.admin, &news);
        ratatui::restore();
        match shown {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => crate::fail(1, &error),
        }
    }
}

fn print_once(news: &Receiver<News>) -> ExitCode {
    match news.recv_timeout(ONCE_WAIT_MAX) {
        Ok(News::Second(second)) => {
            let mut out = io::stdout().lock();
            for line in view::lines(&second, ONCE_WIDTH, u16::MAX) {
                if writeln!(out, "{}", plain(&line)).is_err() {
                    // Whoever reads has read enough.
                    break;
                }
            }
            ExitCode::SUCCESS
        }
        Ok(News::Away(reason)) => crate::fail(1, &reason),
        Err(RecvTimeoutError::Timeout) => crate::fail(
            1,
            &"the proxy answers, but has no second of measurements yet: ask again when it has served for a second",
        ),
        Err(RecvTimeoutError::Disconnected) => crate::fail(1, &"the proxy is not asked any more"),
    }
}

fn plain(line: &Line<'_>) -> String {
    let text: String = line.spans.iter().map(|span| span.content.as_ref()).collect();
    judge::harmless(text.trim_end())
}

fn show(terminal: &mut DefaultTerminal, admin: &str, news: &Receiver<News>) -> io::Result<()> {
    let mut second = None;
    let mut away: Option<String> = Some(format!("waiting for {admin}"));
    loop {
        loop {
            match news.try_recv() {
                Ok(News::Second(newer)) => {
                    second = Some(newer);
                    away = None;
                }
                Ok(News::Away(reason)) => away = Some(reason),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    return Err(io::Error::other("the proxy is not asked any more"));
                }
            }
        }
        terminal.draw(|frame| {
            let area = frame.area();
            let mut lines = Vec::new();
            if let Some(reason) = &away {
                lines.push(view::warning(reason));
            }
            if let Some(second) = &second {
                let left = area.height.saturating_sub(u16::try_from(lines.len()).unwrap_or(0));
                lines.extend(view::lines(second, area.width, left));
            }
            frame.render_widget(Paragraph::new(lines), area);
        })?;
        if event::poll(TICK)? && ends(&event::read()?) {
            return Ok(());
        }
    }
}

fn ends(event: &Event) -> bool {
    let Event::Key(key) = event else { return false };
    let is_interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind == KeyEventKind::Press && (is_interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc))
}
