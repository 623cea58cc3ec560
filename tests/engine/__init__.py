"""Tests of the dev engine, through the SDK's public API wherever that reaches."""
