//! Starts the event loops.

use crate::{
    engine::{
        event::{event_loop::EventLoop, mail::MailRoom},
        making::{Making, ReportingThreads, StartEngine, Started},
    },
    process::error::RunError,
};
use std::io;

/// Event loops, as many as the configuration says.
pub(crate) struct Loops;

impl StartEngine for Loops {
    fn start(&self, making: &Making) -> Result<Started, RunError> {
        let made: io::Result<Vec<_>> = (0..making.config.settings.threads)
            .map(|index| {
                let number = making.first_thread + index;
                EventLoop::new(making, index, &format!("loop-{number}"), number)
            })
            .collect();
        let made = made.map_err(|source| RunError::System { what: "make an event loop", source })?;
        let (loops, handles): (Vec<_>, Vec<_>) = made.into_iter().unzip();
        let mut threads = Vec::new();
        for (index, (event_loop, mail)) in loops.into_iter().zip(MailRoom::connect(&handles)).enumerate() {
            let event_loop = if handles.len() > 1 { event_loop.with_mail(mail) } else { event_loop };
            let name = format!("weir-loop-{}", making.first_thread + index);
            threads.push(making.watch.spawn(name, move || event_loop.run())?);
        }
        let reporting = ReportingThreads::new(handles.clone());
        Ok(Started { reporting, doors: handles, threads, queues: Vec::new() })
    }
}
