//! The device: reads what came, sends what is due, sleeps until there is something to do.
//!
//! While frames wait it does not wake for those that come: none of them can be due before the shortest delay is over, and the kernel
//! stamps and keeps them. So a busy device wakes once per frame, and less often where several are due together.

use std::io::{self, Write};
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::time::{ClockId, clock_gettime};
use thiserror::Error;

use crate::arguments::{Arguments, PortArgument};
use crate::correction::{Correction, median_ns};
use crate::frame::{Frame, OnWire};
use crate::lanes::{Lane, Limits};
use crate::lateness::Lateness;
use crate::packets::{PacketSocket, Read, Received, Scratch};
use crate::priority::take_real_time;
use crate::report::{PortReport, Report};
use crate::switch::{Switch, Way};

/// Frames that are read from one port before others get their turn.
const READ_MAX: usize = 64;
/// Frames are sent together that are due within this part of the shortest delay.
const TOGETHER: u64 = 32;
/// This part of the shortest delay is left, when the device looks at what came, until the first of it may be due.
const IN_HAND: u64 = 8;
/// Below this, the shortest delay leaves no time for that: the device then wakes for all that comes.
const DEAF_FROM_NS: u64 = 100_000;
/// The correction goes up to this part of the shortest delay; beyond, the machine is too slow for it.
const CORRECTED: u64 = 2;
/// Sleeps by which the first correction is found, and how long each is.
const TRIALS: usize = 101;
const TRIAL_NS: u64 = 300_000;
/// The longest sleep; nothing depends on it.
const IDLE_NS: u64 = 1_000_000_000;
/// A stamp that says that a frame waited longer than this was not made by the clock that we read: somebody set it.
const STAMP_AGE_NS_MAX: i64 = 1_000_000_000;

/// Why the device cannot run, or cannot go on.
#[derive(Debug, Error)]
pub(crate) enum DeviceError {
    #[error(
        "{interface}: cannot be opened ({reason}). It must be there and up, and packet sockets need CAP_NET_RAW and CAP_NET_ADMIN"
    )]
    Open { interface: String, reason: &'static str },
    #[error("{interface}: cannot be read any more ({reason})")]
    Read { interface: String, reason: &'static str },
    #[error("two ports are called {0}")]
    Twice(String),
    #[error("the system's clock or its wait failed: {0}")]
    System(#[from] Errno),
    #[error("the report cannot be written: {0}")]
    Report(#[from] io::Error),
}

/// Runs until standard input ends.
pub(crate) fn run(arguments: &Arguments) -> Result<(), DeviceError> {
    let mut device = Device::open(arguments)?;
    device.say()?;
    while device.turn()? {}
    device.say()
}

struct Port {
    name: String,
    socket: PacketSocket,
    lane: Lane,
    missed: u64,
    refused: u64,
}

struct Device {
    ports: Vec<Port>,
    switch: Switch,
    scratch: Scratch,
    correction: Correction,
    lateness: Lateness,
    priority: String,
    /// The shortest delay of all ports.
    shortest_ns: u64,
    sleeps: u64,
    unstamped: u64,
    unusable: u64,
}

impl Device {
    fn open(arguments: &Arguments) -> Result<Device, DeviceError> {
        let waiting_bytes_max = arguments.waiting_mib << 20;
        let mut ports: Vec<Port> = Vec::with_capacity(arguments.ports.len());
        for PortArgument { name, delay_ns, rate_bit_s } in arguments.ports.iter().cloned() {
            if ports.iter().any(|port| port.name == name) {
                return Err(DeviceError::Twice(name));
            }
            let socket = PacketSocket::open(&name)
                .map_err(|error| DeviceError::Open { interface: name.clone(), reason: error.desc() })?;
            let lane = Lane::new(Limits { delay_ns, rate_bit_s, waiting_bytes_max });
            ports.push(Port { name, socket, lane, missed: 0, refused: 0 });
        }
        let shortest_ns = ports.iter().map(|port| port.lane.limits().delay_ns).min().unwrap_or(0);
        let priority = take_real_time();
        let first = if arguments.uncorrected { 0 } else { waking_ns()? };
        let correction = Correction::new(!arguments.uncorrected, first, (shortest_ns / CORRECTED) as i64);
        Ok(Device {
            ports,
            switch: Switch::default(),
            scratch: Scratch::new(),
            correction,
            lateness: Lateness::new(),
            priority,
            shortest_ns,
            sleeps: 0,
            unstamped: 0,
            unusable: 0,
        })
    }

    /// One round; `false` when standard input has ended.
    fn turn(&mut self) -> Result<bool, DeviceError> {
        let now_ns = monotonic_ns()?;
        let left_ns = self.next_wake_ns().map(|wake| wake.saturating_sub(now_ns));
        let listen_ns = match left_ns {
            // What comes now is due in a shortest delay at the earliest. While something waits, there is no need to look sooner.
            Some(left) if self.shortest_ns >= DEAF_FROM_NS => {
                self.sleep(left.min(self.deaf_ns()))?;
                0
            }
            Some(left) => left,
            None => IDLE_NS,
        };
        self.sleeps += u64::from(listen_ns > 0);
        let ready = self.readable(listen_ns)?;
        self.send_due()?;
        if ready.asked && !self.answer()? {
            return Ok(false);
        }
        self.read_all(&ready.ports)?;
        self.send_due()?;
        Ok(true)
    }

    /// For how long it need not look: what comes at once is due after that, with the correction and some time in hand.
    fn deaf_ns(&self) -> u64 {
        let in_hand_ns = self.shortest_ns / IN_HAND + self.correction.early_ns().max(0) as u64;
        self.shortest_ns - in_hand_ns.min(self.shortest_ns)
    }

    fn sleep(&mut self, sleep_ns: u64) -> Result<(), DeviceError> {
        if sleep_ns > 0 {
            self.sleeps += 1;
            pause(sleep_ns)?;
        }
        Ok(())
    }

    fn next_wake_ns(&self) -> Option<u64> {
        let due = self.ports.iter().filter_map(|port| port.lane.next_due_ns()).min()?;
        Some(due.saturating_add_signed(-self.correction.early_ns()))
    }

    /// Waits for frames, questions, or the end of a time.
    fn readable(&self, limit_ns: u64) -> Result<Ready, DeviceError> {
        let input = io::stdin();
        let mut polled = Vec::with_capacity(self.ports.len() + 1);
        polled.push(PollFd::new(input.as_fd(), PollFlags::POLLIN));
        polled.extend(self.ports.iter().map(|port| PollFd::new(port.socket.as_fd(), PollFlags::POLLIN)));
        wait(&mut polled, limit_ns)?;
        let is_ready: Vec<bool> = polled.iter().map(|one| one.any().unwrap_or(true)).collect();
        let ports =
            is_ready[1..].iter().enumerate().filter(|(_, ready)| **ready).map(|(port, _)| port).collect();
        Ok(Ready { asked: is_ready[0], ports })
    }

    /// Reads what came in through each of the ports.
    fn read_all(&mut self, ready: &[usize]) -> Result<(), DeviceError> {
        if ready.is_empty() {
            return Ok(());
        }
        let (now_ns, clock_ahead_ns) = clocks()?;
        for &number in ready {
            for _ in 0..READ_MAX {
                let port = &self.ports[number];
                let read = port.socket.read(&mut self.scratch).map_err(|error| DeviceError::Read {
                    interface: port.name.clone(),
                    reason: error.desc(),
                })?;
                match read {
                    Read::Frame(received) => self.take(number, received, now_ns, clock_ahead_ns),
                    Read::Unusable => self.unusable += 1,
                    Read::Empty => break,
                }
            }
        }
        Ok(())
    }

    /// A frame came in through a port.
    fn take(&mut self, from: usize, received: Received, now_ns: u64, clock_ahead_ns: i64) {
        let age_ns = received.at.map(|stamp| now_ns as i64 + clock_ahead_ns - stamp.num_nanoseconds());
        let arrived_ns = match age_ns {
            // Read in the same round, it may have come after the clock was looked at.
            Some(age) if age.abs() <= STAMP_AGE_NS_MAX => now_ns.saturating_add_signed(-age),
            _ => {
                self.unstamped += 1;
                now_ns
            }
        };
        let frame = received.frame;
        let on_wire = frame.on_wire();
        let way = self.switch.way(&frame, from);
        let Some(sent_ns) = self.ports[from].lane.receive(on_wire, arrived_ns) else { return };
        match way {
            Way::Stay => {}
            Way::Port(to) => self.enter(to, frame, on_wire, sent_ns),
            Way::Flood => {
                for to in (0..self.ports.len()).filter(|&to| to != from) {
                    self.enter(to, frame.clone(), on_wire, sent_ns);
                }
            }
        }
    }

    fn enter(&mut self, to: usize, frame: Frame, on_wire: OnWire, sent_ns: u64) {
        // A lane that is full counts the frame; there is nobody to report it to.
        let _has_room = self.ports[to].lane.enter(frame, on_wire, sent_ns);
    }

    /// Sends all that is due now, or so soon that waking again is not worth it.
    fn send_due(&mut self) -> Result<(), DeviceError> {
        for port in &mut self.ports {
            while let Some(due_ns) = port.lane.next_due_ns() {
                let now_ns = monotonic_ns()?;
                let until_ns =
                    now_ns.saturating_add_signed(self.correction.early_ns()) + self.shortest_ns / TOGETHER;
                let Some(due) = port.lane.leave(until_ns) else { break };
                match port.socket.write(&due.frame) {
                    Ok(()) => {}
                    Err(_) => port.refused += 1,
                }
                let late_ns = now_ns as i64 - due_ns as i64;
                self.lateness.record(late_ns);
                self.correction.learn(late_ns);
            }
        }
        Ok(())
    }

    /// Answers what was asked on standard input; `false` if it has ended.
    fn answer(&mut self) -> Result<bool, DeviceError> {
        let mut asked = [0; 256];
        match nix::unistd::read(io::stdin(), &mut asked) {
            Ok(0) => return Ok(false),
            Ok(count) => {
                for _ in asked[..count].iter().filter(|&&byte| byte == b'\n') {
                    self.say()?;
                }
            }
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(true)
    }

    fn say(&mut self) -> Result<(), DeviceError> {
        let report = self.report()?;
        let mut out = io::stdout().lock();
        serde_json::to_writer(&mut out, &report).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
        Ok(out.flush()?)
    }

    fn report(&mut self) -> Result<Report, DeviceError> {
        for port in &mut self.ports {
            port.missed += port.socket.take_missed()?;
        }
        Ok(Report {
            schema: "weir.delay/1",
            priority: self.priority.clone(),
            ports: self.ports.iter().map(port_report).collect(),
            lateness: self.lateness.take(),
            early_us: self.correction.early_ns() as f64 / 1e3,
            correction_is_spent: self.correction.is_spent(),
            cpu_ns: nanoseconds(ClockId::CLOCK_PROCESS_CPUTIME_ID)? as u64,
            sleeps: self.sleeps,
            unstamped: self.unstamped,
            unusable: self.unusable,
            unremembered: self.switch.unremembered(),
        })
    }
}

/// What there is to do after a wait.
struct Ready {
    asked: bool,
    ports: Vec<usize>,
}

fn port_report(port: &Port) -> PortReport {
    let (limits, passed) = (port.lane.limits(), port.lane.passed());
    PortReport {
        name: port.name.clone(),
        delay_us: limits.delay_ns as f64 / 1e3,
        rate_mbit_s: limits.rate_bit_s.map(|rate| rate as f64 / 1e6),
        received_packets: passed.received_packets,
        received_bytes: passed.received_bytes,
        sent_packets: passed.sent_packets,
        sent_bytes: passed.sent_bytes,
        dropped_at_rate: passed.dropped_at_rate,
        dropped_at_lane: passed.dropped_at_lane,
        missed: port.missed,
        refused: port.refused,
        waiting_bytes: port.lane.waiting_bytes(),
        waiting_bytes_max: passed.waiting_bytes_max,
    }
}

/// How late a sleeper wakes on this machine, at the median of some sleeps.
fn waking_ns() -> Result<i64, DeviceError> {
    let mut late = Vec::with_capacity(TRIALS);
    for _ in 0..TRIALS {
        let began_ns = monotonic_ns()?;
        pause(TRIAL_NS)?;
        late.push((monotonic_ns()? - began_ns) as i64 - TRIAL_NS as i64);
    }
    Ok(median_ns(&mut late))
}

fn pause(sleep_ns: u64) -> Result<(), DeviceError> {
    wait(&mut [], sleep_ns)
}

/// Waits until a descriptor is ready or the time is over; a signal ends it, too.
fn wait(polled: &mut [PollFd<'_>], limit_ns: u64) -> Result<(), DeviceError> {
    match ppoll(polled, Some(TimeSpec::nanoseconds(limit_ns as i64)), None) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The monotonic clock, and how far the system's clock is ahead of it.
fn clocks() -> Result<(u64, i64), DeviceError> {
    let (monotonic, system) = (nanoseconds(ClockId::CLOCK_MONOTONIC)?, nanoseconds(ClockId::CLOCK_REALTIME)?);
    Ok((monotonic as u64, system - monotonic))
}

fn monotonic_ns() -> Result<u64, DeviceError> {
    Ok(nanoseconds(ClockId::CLOCK_MONOTONIC)? as u64)
}

fn nanoseconds(clock: ClockId) -> Result<i64, DeviceError> {
    Ok(clock_gettime(clock)?.num_nanoseconds())
}
