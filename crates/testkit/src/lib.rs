//! Raw-wire test cases, server fixtures and random generators for tests.
