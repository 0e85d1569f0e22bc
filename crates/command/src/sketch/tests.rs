//! The sketches' commands by the fixture.
