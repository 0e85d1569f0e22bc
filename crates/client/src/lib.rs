//! A RESP client, blocking and pipelined.
