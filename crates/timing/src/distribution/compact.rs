use crate::Distribution;
use crate::distribution::buckets::Buckets;

/// A [`Distribution`] that is kept for a while and not recorded into: only buckets with something in them take memory, six bytes each.
#[derive(Clone, Debug)]
pub struct CompactDistribution {
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
    places: Box<[u16]>,
    counts: Box<[u32]>,
}

impl From<&Distribution> for CompactDistribution {
    fn from(distribution: &Distribution) -> Self {
        let (places, counts): (Vec<u16>, Vec<u32>) = distribution
            .buckets
            .entries()
            .map(|(place, count)| {
                let place = u16::try_from(place).expect("there are fewer than 2^16 buckets");
                // A bucket would have to be met four thousand million times in a second.
                (place, u32::try_from(count).unwrap_or(u32::MAX))
            })
            .unzip();
        Self {
            sum_ns: distribution.sum(),
            min_ns: distribution.min_ns,
            max_ns: distribution.max_ns,
            places: places.into(),
            counts: counts.into(),
        }
    }
}

impl CompactDistribution {
    /// The distribution as it was.
    pub fn expand(&self) -> Distribution {
        let mut buckets = Buckets::new();
        for (place, count) in self.places.iter().zip(&self.counts) {
            buckets.add_at(usize::from(*place), u64::from(*count));
        }
        Distribution::of(self.sum_ns, [self.min_ns, self.max_ns], buckets)
    }

    /// How much memory it takes, in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.places) + size_of_val(&*self.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_is_lost(times in prop::collection::vec(prop_oneof![0u64..5000, any::<u64>()], 0..40)) {
            let mut distribution = Distribution::new();
            times.iter().for_each(|nanos| distribution.record(*nanos));
            let compact = CompactDistribution::from(&distribution);
            prop_assert_eq!(compact.expand().report(), distribution.report());
            prop_assert!(compact.bytes() <= size_of::<CompactDistribution>() + 6 * times.len());
        }
    }
}
