"""A tool for NoETL: does a server take connections?"""
