//! The seven stamps of a request, its stages, histograms, windows and queue gauges. No clock.
