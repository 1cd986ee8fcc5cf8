"""The profile browser: captures beside each other, their noise, ceilings, schedules and notes.

============== ======================================================================================
`browser`      `ProfileBrowser`, the notebook widget
`session`      what is shown: filters, picks, views
`captures`     the captures of a store
`work`         operations and bytes that a workload needs
`units`        base units, and how values are written
`counters`     what each counter says; figures derived from several
`columns`      columns of the table and the order by each
`compare`      captures side by side, differences beside their noise
`ceilings`     what a GPU can do at most, measured or by datasheet
`roofline`     captures below those ceilings
`parameter`    one figure against one parameter of the configuration
`bins`         the plan and the stamps of a capture's configuration
`chart`        axes, lines and points, drawn alike by Python and by the browser
`notes`        what a user wrote about a capture
`exports`      CSV, Parquet, HTML
`words`        sentences
`frames`       what the browser side is sent; `replies`: what it is answered
`svg`          the picture without a browser; `svg_chart`: its charts
============== ======================================================================================
"""
