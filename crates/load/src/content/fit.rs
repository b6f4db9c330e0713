//! For tests: does a sample follow its distribution?

/// Pearson's statistic of observed counts against expected ones.
pub(crate) fn chi_square_of(observed: &[u64], expected: &[f64]) -> f64 {
    assert_eq!(observed.len(), expected.len());
    let terms = observed.iter().zip(expected).map(|(&observed, &expected)| {
        assert!(expected > 5.0, "the test does not hold for bins with so few: {expected}");
        (observed as f64 - expected).powi(2) / expected
    });
    terms.sum()
}

/// What the statistic exceeds with a probability of 0.001, by Wilson and Hilferty's approximation (PNAS 17, 1931), which
/// is within 2 % from three degrees of freedom up; below that, from the table.
pub(crate) fn chi_square_bound(freedom: usize) -> f64 {
    match freedom {
        0 => 1e-6,
        1 => 10.828,
        2 => 13.816,
        _ => {
            let n = freedom as f64;
            let spread = 2.0 / (9.0 * n);
            n * (1.0 - spread + 3.0902 * spread.sqrt()).powi(3)
        }
    }
}

#[test]
fn the_bound_is_that_of_the_tables() {
    for (freedom, bound) in [(3, 16.266), (10, 29.588), (99, 148.230)] {
        assert!((chi_square_bound(freedom) / bound - 1.0).abs() < 0.02, "{freedom}");
    }
}
