use crate::{Distribution, Operation, OperationReport};

/// Histograms and counts of some time: of one window, or of all that was before it.
#[derive(Clone, Debug, Default)]
pub struct Measurements {
    pub(crate) operations: Box<[OperationReport; Operation::COUNT]>,
    pub(crate) server_times: Vec<Distribution>,
    pub(crate) turn_time: Distribution,
}

impl Measurements {
    pub(crate) fn of_servers(servers: usize) -> Self {
        Self { server_times: vec![Distribution::new(); servers], ..Self::default() }
    }

    /// Nothing yet, of as many servers, where times like those of `other` are expected.
    pub(crate) fn like(other: &Self) -> Self {
        Self {
            operations: Box::new(other.operations.each_ref().map(OperationReport::like)),
            server_times: other.server_times.iter().map(Distribution::like).collect(),
            turn_time: Distribution::like(&other.turn_time),
        }
    }

    /// The requests of one operation, all zero if it was not asked for.
    pub fn operation(&self, operation: Operation) -> &OperationReport {
        &self.operations[operation.index()]
    }

    /// The operations that were asked for.
    pub fn operations(&self) -> impl Iterator<Item = (Operation, &OperationReport)> {
        let all = Operation::ALL.into_iter().map(|operation| (operation, self.operation(operation)));
        all.filter(|(_, report)| report.requests > 0)
    }

    /// Time in nanoseconds that one server took; empty for one that does not exist.
    pub fn server_time(&self, server: usize) -> &Distribution {
        static NEVER: Distribution = Distribution::new();
        self.server_times.get(server).unwrap_or(&NEVER)
    }

    /// The same, which is empty from now on.
    pub fn take_server_time(&mut self, server: usize) -> Distribution {
        self.server_times.get_mut(server).map(std::mem::take).unwrap_or_default()
    }

    /// How long each turn took, from the end of a wait to the beginning of the next, in nanoseconds.
    pub fn turn_time(&self) -> &Distribution {
        &self.turn_time
    }

    /// Adds what another loop measured, whose servers may have other numbers: all but the times of servers.
    pub fn merge_requests_and_turns(&mut self, other: &Self) {
        for (mine, theirs) in self.operations.iter_mut().zip(other.operations.iter()) {
            mine.merge(theirs);
        }
        self.turn_time.merge(&other.turn_time);
    }

    /// Adds what the same loop measured at another time.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.merge_requests_and_turns(other);
        if self.server_times.len() < other.server_times.len() {
            self.server_times.resize_with(other.server_times.len(), Distribution::new);
        }
        for (mine, theirs) in self.server_times.iter_mut().zip(&other.server_times) {
            mine.merge(theirs);
        }
    }
}
