//! The load tester.
