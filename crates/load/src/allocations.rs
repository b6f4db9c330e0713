//! For tests: how often this thread has asked for memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// Allocations and reallocations of this thread so far.
pub(crate) fn count() -> u64 {
    COUNT.get()
}

struct Counting;

// SAFETY: every call goes unchanged to the system's allocator, whose guarantees these are.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        bump();
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        bump();
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// A thread that is ending has no count any more, and may still allocate.
fn bump() {
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
