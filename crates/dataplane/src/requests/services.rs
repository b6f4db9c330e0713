//! The requests in service, by number.
//!
//! What is noted of a request fills several cache lines, of which most requests use few; so places are used again as they lie, and
//! nothing of them is moved.

use crate::{
    requests::service::{Service, Stage},
    wire::ids::RequestKey,
};
use std::ops::{Index, IndexMut};

#[derive(Debug, Default)]
pub(crate) struct Services {
    places: Vec<Service>,
    /// Places of nobody.
    free: Vec<RequestKey>,
}

impl Services {
    /// A place for a request. The caller says by [`Service::begin`] what it is.
    #[inline]
    pub(crate) fn add(&mut self) -> RequestKey {
        self.free.pop().unwrap_or_else(|| {
            self.places.push(Service::VACANT);
            RequestKey::from_index(self.places.len() - 1)
        })
    }

    /// The request is forgotten, and its number may be another's.
    #[inline]
    pub(crate) fn remove(&mut self, key: RequestKey) {
        self[key].end();
        self.free.push(key);
    }

    /// The request is answered, and forgotten when no replica owes it anything.
    #[inline(always)]
    pub(crate) fn retire(&mut self, key: RequestKey) {
        let service = &mut self.places[key.index()];
        if service.outstanding == 0 {
            service.end();
            self.free.push(key);
        } else {
            service.stage = Stage::Lingering;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Index<RequestKey> for Services {
    type Output = Service;

    #[inline]
    fn index(&self, key: RequestKey) -> &Service {
        &self.places[key.index()]
    }
}

impl IndexMut<RequestKey> for Services {
    #[inline]
    fn index_mut(&mut self, key: RequestKey) -> &mut Service {
        &mut self.places[key.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ids::SessionId;
    use weir_timing::{Instant, Operation};

    #[test]
    fn a_place_that_is_used_again_remembers_nothing() {
        let begun = Instant::from_nanos(5);
        let mut services = Services::default();
        let [first, second] = [services.add(), services.add()];
        let service = &mut services[first];
        service.begin(SessionId::from_index(7), Operation::Set, 1, true, begun, begun);
        let fresh = format!("{service:?}");
        (service.hits, service.outstanding) = (3, 1);
        service.verdict.degrade();
        service.verdict.fail(crate::Fault::Timeout, &"server".into());
        service.verdict.refuse(weir_protocol::Refusal::TooLarge);
        service.answer = crate::requests::answer::Answer::Fixed(b"END\r\n");
        service.gather = Some(Box::default());
        service.noted = crate::meter::noted::Noted::Reply(crate::meter::hot_keys::Watched::Values);
        services.remove(first);
        assert_eq!((services.len(), services.is_empty()), (1, false));
        assert_eq!(services.add(), first);
        services[first].begin(SessionId::from_index(7), Operation::Set, 1, true, begun, begun);
        assert_eq!(format!("{:?}", services[first]), fresh);
        services.remove(first);
        services.remove(second);
        assert!(services.is_empty());
    }
}
