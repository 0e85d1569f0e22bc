//! RESP2 and RESP3, sans I/O: request parser, reply writer.
