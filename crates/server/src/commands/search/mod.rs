//! The FT family: indexes, searches, aggregations.

pub mod definitions;
pub mod find;

use martlet_command::Group;
use martlet_spec::module;

const GROUP: Group = Group::Module(&module::SEARCH);
