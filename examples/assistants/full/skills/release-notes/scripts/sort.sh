#!/bin/sh
sort "$1"
