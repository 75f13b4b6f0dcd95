"""The typed run config: `schema` says what there is, `load` reads it from TOML files and the command line."""

from videorl.config.load import build_config, dump_toml, load_config
from videorl.config.schema import Config

__all__ = ["Config", "build_config", "dump_toml", "load_config"]
